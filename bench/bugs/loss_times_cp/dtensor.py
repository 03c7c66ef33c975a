from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from on_torch import explicit, run, tensor
from report import WRONG


def program(mesh):
    x = distribute_tensor(tensor(1, 8, 4), mesh, [Shard(0)])
    w = distribute_tensor(tensor(2, 4), mesh, [Replicate()]).requires_grad_()
    with explicit():
        loss = (x @ w).square().mean().redistribute(placements=[Replicate()]) * (mesh.size() if WRONG else 1)
    loss.backward()
    return w.grad.full_tensor().square().sum()


run(program, cp=2)
