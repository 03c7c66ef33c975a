import spmd_types as spmd
import torch

from on_spmd import place, run, tensor
from report import WRONG, counted


def program(mesh):
    dp = mesh.get_group("dp")
    x = place(tensor(1, 8, 4), mesh, {"dp": spmd.S(0)})
    mask = place(torch.from_numpy(counted(8)), mesh, {"dp": spmd.S(0)})
    w = place(tensor(2, 4), mesh, {"dp": spmd.R})
    total, count = (mask * (x @ w).square()).sum(), mask.sum()
    if WRONG:
        return spmd.all_reduce(total / count, dp, dst=spmd.I) / 2
    return spmd.all_reduce(total, dp, dst=spmd.I) / spmd.all_reduce(count, dp, dst=spmd.I)


run(program, dp=2)
