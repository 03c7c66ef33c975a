import spmd_types as spmd

from on_spmd import place, run, tensor
from report import WRONG


def program(mesh):
    whole = place(tensor(1, 6), mesh, {"tp": spmd.I})
    sinks = place(tensor(2, 8), mesh, {"tp": spmd.S(0)})
    squares = sinks.square().sum()
    if not WRONG:
        squares = spmd.all_reduce(squares, mesh.get_group("tp"), dst=spmd.I)
    return (whole.square().sum() + squares).sqrt()


run(program, tp=2)
