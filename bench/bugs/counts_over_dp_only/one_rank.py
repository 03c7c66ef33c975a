from on_torch import torch
from report import chosen, number

counts = torch.from_numpy(chosen(4, 4, 3)).double().sum((0, 1))
number((counts - 16 / 3).abs().sum())
