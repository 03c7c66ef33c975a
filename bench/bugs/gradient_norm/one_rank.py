from on_torch import tensor
from report import number

whole, sinks = tensor(1, 6).double(), tensor(2, 8).double()
number((whole.square().sum() + sinks.square().sum()).sqrt())
