import torch.nn.functional as F
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import PrepareModuleInput, parallelize_module

from on_torch import explicit, run, tensor, torch
from report import WRONG


class Block(torch.nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1, self.w2 = torch.nn.Parameter(w1), torch.nn.Parameter(w2)

    def forward(self, x_SD):
        return F.silu(x_SD @ self.w1) @ self.w2


def program(mesh):
    x = distribute_tensor(tensor(1, 8, 4), mesh, [Shard(0)])
    block = Block(distribute_tensor(tensor(2, 4, 8), mesh, [Shard(1)]), distribute_tensor(tensor(3, 8, 4), mesh, [Shard(0)]))
    name = "x" if WRONG else "x_SD"  # the argument's name before and after it was renamed
    parallelize_module(block, mesh, PrepareModuleInput(
        input_kwarg_layouts={name: Shard(0)}, desired_input_kwarg_layouts={name: Replicate()}, use_local_output=False))
    with explicit():
        y = block(x_SD=x).redistribute(placements=[Shard(0)])
        return y.square().mean().full_tensor()


run(program, tp=2)
