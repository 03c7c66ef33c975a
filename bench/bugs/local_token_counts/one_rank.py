from on_torch import tensor, torch
from report import counted, number

x, w, mask = tensor(1, 8, 4).double(), tensor(2, 4).double(), torch.from_numpy(counted(8)).double()
number((mask * (x @ w).square()).sum() / mask.sum())
