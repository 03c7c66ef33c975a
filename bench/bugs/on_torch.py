"""Runs a program of PyTorch on several ranks: processes of this machine that meet through gloo."""

import math
import os
import tempfile
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor._utils import ExplicitRedistributionContext

from report import data, number, refused

fork = multiprocessing.get_context("fork")


def tensor(seed, *shape):
    return torch.from_numpy(data(seed, *shape))


def explicit():
    """DTensor's strict mode: a redistribution that the program doesn't write is an error. DTENSOR_IMPLICIT=1 leaves it out."""
    return ExplicitRedistributionContext(strict=True, enable="DTENSOR_IMPLICIT" not in os.environ)


def _rank(program, degrees, backend, rank, meeting, answers):
    torch.set_num_threads(1)
    method = {"init_method": f"file://{meeting}"} if backend == "gloo" else {}
    dist.init_process_group(backend, rank=rank, world_size=math.prod(degrees.values()), **method)
    try:
        mesh = init_device_mesh("cpu", tuple(degrees.values()), mesh_dim_names=tuple(degrees))
        answers.put((rank, float(program(mesh)), None))
    except Exception as error:
        traceback.print_exc()
        answers.put((rank, None, (type(error).__name__, str(error))))
    os._exit(0)  # doesn't wait for ranks that stopped earlier


def answers_of(program, degrees, backend="gloo", ranks=None):
    """What program(mesh) answers on the first ranks (all of them) of this mesh: (rank, number, None) or (rank, None, error)."""
    answers = fork.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = os.path.join(folder, "meeting")
        processes = [fork.Process(target=_rank, args=(program, degrees, backend, rank, meeting, answers))
                     for rank in range(ranks or math.prod(degrees.values()))]
        for process in processes:
            process.start()
        received = sorted((answers.get() for _ in processes), key=lambda answer: answer[0])
        for process in processes:
            process.join()
    return received


def run(program, **degrees):
    """Calls program(mesh) on every rank of the mesh run(..., dp=2, tp=2) and prints its numbers."""
    for _, _, error in (received := answers_of(program, degrees)):
        if error:
            refused("run", *error)
    number(*(result for _, result, _ in received))
