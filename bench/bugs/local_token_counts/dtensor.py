from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

from on_torch import explicit, run, tensor, torch
from report import WRONG, counted


def program(mesh):
    x = distribute_tensor(tensor(1, 8, 4), mesh, [Shard(0)])
    mask = distribute_tensor(torch.from_numpy(counted(8)), mesh, [Shard(0)])
    w = distribute_tensor(tensor(2, 4), mesh, [Replicate()])
    whole = [Replicate()]
    with explicit():
        total, count = (mask * (x @ w).square()).sum(), mask.sum()
        if WRONG:
            return (total / count).redistribute(placements=whole).to_local()
        return (total.redistribute(placements=whole) / count.redistribute(placements=whole)).to_local()


run(program, dp=2)
