import spmd_types as spmd
import torch.nn.functional as F

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    tp = mesh.get_group("tp")
    x = place(tensor(1, 4, 6), mesh, {"tp": spmd.I})
    gate = place(tensor(2, 6, 6), mesh, {"tp": spmd.I}).requires_grad_()
    w1 = place(tensor(3, 6, 8), mesh, {"tp": spmd.S(1)})
    w2 = place(tensor(4, 8, 6), mesh, {"tp": spmd.S(0)})
    a = (x @ gate).tanh()
    if not WRONG:
        a = spmd.invariant_to_replicate(a, tp)
    y = spmd.all_reduce(F.silu(a @ w1) @ w2, tp, dst=spmd.I)
    y.square().mean().backward()
    spmd.assert_type(gate.grad, {"tp": spmd.I})  # what the gradient of an invariant tensor is
    return gate.grad.square().sum()


run(program, tp=2)
