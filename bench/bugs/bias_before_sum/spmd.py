import spmd_types as spmd

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    tp = mesh.get_group("tp")
    h = place(tensor(1, 4, 8), mesh, {"tp": spmd.S(1)})
    v = place(tensor(2, 8, 4), mesh, {"tp": spmd.S(0)})
    b = place(tensor(3, 4), mesh, {"tp": spmd.I})
    y = h @ v
    if WRONG:
        y = spmd.all_reduce(y + b, tp, dst=spmd.I)
    else:
        y = spmd.all_reduce(y, tp, dst=spmd.I) + b
    return y.square().mean()


run(program, tp=2)
