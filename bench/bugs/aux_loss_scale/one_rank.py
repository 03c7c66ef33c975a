from on_torch import tensor
from report import number

z = tensor(1, 8, 4).double()
number(z.square().mean() * z.shape[0] / 8)
