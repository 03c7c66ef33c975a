from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from on_torch import explicit, run, tensor

# WRONG is the same program: a shape is the whole tensor's.


def program(mesh):
    z = distribute_tensor(tensor(1, 8, 4), mesh, [Shard(0)])
    with explicit():
        tokens = z.shape[0]
        return z.square().mean().redistribute(placements=[Replicate()]).to_local() * tokens / 8


run(program, tp=2)
