import torch.nn.functional as F
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from on_torch import explicit, run, tensor
from report import WRONG


def program(mesh):
    x = distribute_tensor(tensor(1, 8, 4), mesh, [Shard(0)])
    weight = distribute_tensor(tensor(2, 4), mesh, [Replicate()]).requires_grad_()
    with explicit():
        loss = F.rms_norm(x, (4,), weight, 1e-5).square().mean().redistribute(placements=[Replicate()])
    loss.backward()
    with explicit():
        gradient = weight.grad if WRONG else weight.grad.redistribute(placements=[Replicate()])
        return (weight - 0.5 * gradient).square().sum().full_tensor()


run(program, tp=2)
