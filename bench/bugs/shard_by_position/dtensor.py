from torch.distributed.tensor import DTensor, Replicate, Shard

from on_torch import explicit, run, tensor
from report import WRONG


def program(mesh):
    x = tensor(1, 2, 8, 4).chunk(2, 1)[mesh.get_local_rank()]  # this rank's half of the sequence
    with explicit():
        x = DTensor.from_local(x, mesh, [Shard(2 if WRONG else 1)])
        s = x.transpose(1, 2).redistribute(placements=[Replicate()])
        return s.softmax(-1).square().sum().to_local()


run(program, cp=2)
