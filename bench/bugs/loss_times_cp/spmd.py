import spmd_types as spmd

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    cp = mesh.get_group("cp")
    x = place(tensor(1, 8, 4), mesh, {"cp": spmd.S(0)})
    w = place(tensor(2, 4), mesh, {"cp": spmd.I}).requires_grad_()
    loss = spmd.all_reduce((x @ spmd.invariant_to_replicate(w, cp)).square().sum() / 8, cp, dst=spmd.I)
    (loss * (cp.size() if WRONG else 1)).backward()
    spmd.assert_type(w.grad, {"cp": spmd.I})
    return w.grad.square().sum()


run(program, cp=2)
