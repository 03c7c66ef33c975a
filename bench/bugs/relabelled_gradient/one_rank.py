from on_torch import tensor
from report import number

x, head = tensor(1, 4, 6).double(), tensor(3, 6, 8).double()
w = tensor(2, 6, 6).double().requires_grad_()
((x @ w).tanh() @ head).square().mean().backward()
number(w.grad.square().sum())
