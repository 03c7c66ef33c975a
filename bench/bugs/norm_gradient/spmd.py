import spmd_types as spmd
import torch.nn.functional as F

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    tp = mesh.get_group("tp")
    x = place(tensor(1, 8, 4), mesh, {"tp": spmd.S(0)})
    weight = place(tensor(2, 4), mesh, {"tp": spmd.R}).requires_grad_()  # its gradient is summed after the backward
    (F.rms_norm(x, (4,), weight, 1e-5).square().sum() / 32).backward()
    with spmd.no_typecheck():  # the optimizer
        if not WRONG:
            spmd.assert_type(weight.grad, {"tp": spmd.P})
            weight.grad = spmd.all_reduce(weight.grad, tp, dst=spmd.R)
        return (weight - 0.5 * weight.grad).square().sum()


run(program, tp=2)
