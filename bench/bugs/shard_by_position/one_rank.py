from on_torch import tensor
from report import number

x = tensor(1, 2, 8, 4).double()  # [batch, seq, heads]
number(x.transpose(1, 2).softmax(-1).square().sum())
