from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from on_torch import explicit, run, tensor
from report import WRONG


def program(mesh):
    x = distribute_tensor(tensor(1, 4, 6), mesh, [Replicate()])
    w = distribute_tensor(tensor(2, 6, 6), mesh, [Replicate()]).requires_grad_()
    head = distribute_tensor(tensor(3, 6, 8), mesh, [Shard(1)])
    with explicit():
        a = (x @ w).tanh()
        leaf = a.detach().requires_grad_()
        loss = (leaf @ head).square().mean()
    loss.backward()
    # The gradients of chunks of the sequence are collected in one buffer, which is then given a placement.
    buffer = leaf.grad.to_local()
    placements = a.placements if WRONG else leaf.grad.placements
    assert leaf.grad.placements == (Partial(),)
    a.backward(DTensor.from_local(buffer, mesh, placements))
    return w.grad.full_tensor().square().sum()


run(program, tp=2)
