import torch

from on_torch import tensor
from report import number

h, v, b = tensor(1, 4, 8).double(), tensor(2, 8, 4).double(), tensor(3, 4).double()
number((h @ v + b).square().mean())
