import spmd_types as spmd

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    tp = mesh.get_group("tp")
    z = place(tensor(1, 8, 4), mesh, {"tp": spmd.S(0)})
    tokens = z.shape[0] if WRONG else z.shape[0] * tp.size()
    return spmd.all_reduce(z.square().sum() / 32, tp, dst=spmd.I) * tokens / 8


run(program, tp=2)
