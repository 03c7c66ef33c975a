from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.utils import get_total_norm

from on_torch import run, tensor
from report import WRONG


def program(mesh):
    whole = distribute_tensor(tensor(1, 6), mesh, [Replicate()])
    sinks = distribute_tensor(tensor(2, 8), mesh, [Shard(0)])
    norm = get_total_norm([whole, sinks])
    return norm.to_local() if WRONG else norm.full_tensor()


run(program, tp=2)
