import spmd_types as spmd
import torch

from on_spmd import place, run
from report import WRONG, chosen


def program(mesh):
    routed = place(torch.from_numpy(chosen(4, 4, 3)), mesh, {"dp": spmd.S(0), "tp": spmd.S(1)})
    counts = spmd.all_reduce(routed.sum((0, 1)), mesh.get_group("dp"), dst=spmd.I)
    if not WRONG:
        counts = spmd.all_reduce(counts, mesh.get_group("tp"), dst=spmd.I)
    return (counts - 16 / 3).abs().sum()


run(program, dp=2, tp=2)
