import spmd_types as spmd
import torch.nn.functional as F

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    tp = mesh.get_group("tp")
    x = place(tensor(1, 8, 4), mesh, {"tp": spmd.S(0)})
    w1 = place(tensor(2, 4, 8), mesh, {"tp": spmd.S(1)})
    w2 = place(tensor(3, 8, 4), mesh, {"tp": spmd.S(0)})
    if not WRONG:
        x = spmd.all_gather(x, tp, src=spmd.S(0), dst=spmd.R)
    y = spmd.reduce_scatter(F.silu(x @ w1) @ w2, tp, dst=spmd.S(0))
    return spmd.all_reduce(y.square().sum(), tp, dst=spmd.I) / 32


run(program, tp=2)
