import spmd_types as spmd

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    tp = mesh.get_group("tp")
    x = place(tensor(1, 4, 6), mesh, {"tp": spmd.I})
    w = place(tensor(2, 6, 6), mesh, {"tp": spmd.I}).requires_grad_()
    head = place(tensor(3, 6, 8), mesh, {"tp": spmd.S(1)})
    a = (x @ w).tanh()
    leaf = spmd.invariant_to_replicate(a.detach(), tp).requires_grad_()
    ((leaf @ head).square().sum() / 32).backward()
    da = leaf.grad  # the check ends at backward(): what a gradient is, the program says
    if WRONG:
        spmd.assert_type(da, {"tp": spmd.I})
    else:
        spmd.assert_type(da, {"tp": spmd.P})
        da = spmd.all_reduce(da, tp, dst=spmd.I)
    (a * da).sum().backward()
    spmd.assert_type(w.grad, {"tp": spmd.I})
    return w.grad.square().sum()


run(program, tp=2)
