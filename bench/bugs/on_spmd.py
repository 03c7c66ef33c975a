"""Runs a program of spmd_types: first its check, on one process with a fake process group, strict and global (each varying axis
says which dimension it shards); then, if nothing is refused, on several ranks as on_torch.py does, unchecked, for the number.
SPMD_LOCAL=1 checks local types only, which is what typecheck() does if nobody asks for more."""

import os

import spmd_types as spmd
import spmd_types.checker

from on_torch import answers_of, run as run_on_ranks, tensor
from report import refused


def place(whole, mesh, types):
    """This rank's share of a whole tensor, of these types: a slice along i for S(i), all of it for R and I."""
    with spmd.no_typecheck():
        for axis, kind in types.items():
            if isinstance(kind, spmd.Shard):
                whole = whole.chunk(mesh[axis].size(), kind.dim)[mesh[axis].get_local_rank()].contiguous()
        whole = whole.clone()
    spmd.assert_type(whole, types)
    return whole


def run(program, **degrees):
    def check(mesh):
        with spmd.set_current_mesh(mesh), spmd.checker.typecheck(strict_mode="strict", local="SPMD_LOCAL" in os.environ):
            program(mesh)
        return 0

    def on_ranks(mesh):
        with spmd.set_current_mesh(mesh):
            return program(mesh)

    [(_, _, error)] = answers_of(check, degrees, backend="fake", ranks=1)
    if error:
        refused("check", *error)
    run_on_ranks(on_ranks, **degrees)
