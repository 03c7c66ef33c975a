from on_torch import tensor
from report import number

x, w = tensor(1, 8, 4).double(), tensor(2, 4).double().requires_grad_()
(x @ w).square().mean().backward()
number(w.grad.square().sum())
