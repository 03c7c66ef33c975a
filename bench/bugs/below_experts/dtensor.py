import torch.nn.functional as F
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map

from on_torch import explicit, run, tensor
from report import WRONG

whole, columns, rows, addend = [Replicate()], [Shard(1)], [Shard(0)], [Partial()]


def program(mesh):
    x = distribute_tensor(tensor(1, 4, 6), mesh, whole)
    gate = distribute_tensor(tensor(2, 6, 6), mesh, whole).requires_grad_()
    w1 = distribute_tensor(tensor(3, 6, 8), mesh, columns)
    w2 = distribute_tensor(tensor(4, 8, 6), mesh, rows)
    experts = local_map(lambda a, w1, w2: F.silu(a @ w1) @ w2, out_placements=addend, in_placements=(whole, columns, rows),
                        in_grad_placements=None if WRONG else (addend, columns, rows), device_mesh=mesh)
    with explicit():
        y = experts((x @ gate).tanh(), w1, w2).redistribute(placements=whole)
        loss = y.square().mean()
    loss.backward()
    return gate.grad.full_tensor().square().sum()


run(program, tp=2)
