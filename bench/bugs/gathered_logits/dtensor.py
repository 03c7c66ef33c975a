import torch.nn.functional as F
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

from on_torch import explicit, run, tensor, torch
from report import WRONG, targets


def program(mesh):
    x = distribute_tensor(tensor(1, 4, 6), mesh, [Replicate()])
    w = distribute_tensor(tensor(2, 6, 8), mesh, [Shard(1)]).requires_grad_()
    with explicit():
        logits = (x @ w).redistribute(placements=[Replicate()])
        logits = logits.to_local(grad_placements=[Partial() if WRONG else Replicate()])
        loss = F.cross_entropy(logits, torch.from_numpy(targets(4, 8)))
    loss.backward()
    return w.grad.square().sum().full_tensor()


run(program, tp=2)
