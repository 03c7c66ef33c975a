import torch.nn.functional as F

from on_torch import tensor
from report import number

x, w1, w2 = tensor(1, 4, 6).double(), tensor(3, 6, 8).double(), tensor(4, 8, 6).double()
gate = tensor(2, 6, 6).double().requires_grad_()
y = F.silu((x @ gate).tanh() @ w1) @ w2
y.square().mean().backward()
number(gate.grad.square().sum())
