from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

from on_torch import explicit, run, tensor
from report import WRONG


def program(mesh):
    h = distribute_tensor(tensor(1, 4, 8), mesh, [Shard(1)])
    v = distribute_tensor(tensor(2, 8, 4), mesh, [Shard(0)])
    b = distribute_tensor(tensor(3, 4), mesh, [Replicate()])
    with explicit():
        y = h @ v
        assert y.placements == (Partial(),)
        y = (y + b).redistribute(placements=[Replicate()]) if WRONG else y.redistribute(placements=[Replicate()]) + b
        return y.square().mean().to_local()


run(program, tp=2)
