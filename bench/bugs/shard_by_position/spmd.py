import spmd_types as spmd

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    x = place(tensor(1, 2, 8, 4), mesh, {"cp": spmd.S(1)})
    s = spmd.all_gather(x.transpose(1, 2), mesh.get_group("cp"), src=spmd.S(1 if WRONG else 2), dst=spmd.I)
    return s.softmax(-1).square().sum()


run(program, cp=2)
