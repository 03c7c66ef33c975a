from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

from on_torch import explicit, run, torch
from report import WRONG, chosen


def program(mesh):
    routed = distribute_tensor(torch.from_numpy(chosen(4, 4, 3)), mesh, [Shard(0), Shard(1)])
    with explicit():
        counts = routed.sum((0, 1))
        counts = counts.redistribute(placements=[Replicate(), Partial() if WRONG else Replicate()])
        return (counts - 16 / 3).abs().sum().full_tensor()


run(program, dp=2, tp=2)
