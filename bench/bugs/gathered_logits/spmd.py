import spmd_types as spmd
import torch
import torch.nn.functional as F

from on_spmd import place, run, tensor
from report import WRONG, targets


def program(mesh):
    tp = mesh.get_group("tp")
    x = place(tensor(1, 4, 6), mesh, {"tp": spmd.I})
    w = place(tensor(2, 6, 8), mesh, {"tp": spmd.S(1)}).requires_grad_()
    t = place(torch.from_numpy(targets(4, 8)), mesh, {"tp": spmd.I})
    logits = spmd.invariant_to_replicate(x, tp) @ w
    logits = spmd.all_gather(logits, tp, src=spmd.S(1), dst=spmd.R if WRONG else spmd.I)
    F.cross_entropy(logits, spmd.invariant_to_replicate(t, tp) if WRONG else t).backward()
    with spmd.no_typecheck():
        total = w.grad.square().sum()
    spmd.assert_type(total, {"tp": spmd.P})
    return spmd.all_reduce(total, tp, dst=spmd.I)


run(program, tp=2)
