"""Runs a program of JAX on simulated devices of this process, under a mesh whose axes are all explicit (sharding in types)."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import AxisType

from report import number, refused


def mesh(**degrees):
    """Makes a mesh of these axes, mesh(dp=2, tp=2), the current one."""
    n = int(np.prod(list(degrees.values())))
    jax.set_mesh(jax.make_mesh(tuple(degrees.values()), tuple(degrees), (AxisType.Explicit,) * len(degrees),
                               devices=jax.devices()[:n]))


def put(x, spec):
    return jax.device_put(x, spec)


def run(program, *args):
    """Traces program(*args) -> a scalar, compiles it, runs it, and prints the scalar."""
    try:
        traced = jax.jit(program).trace(*args)
    except Exception as error:
        refused("trace", type(error).__name__, str(error))
    try:
        result = float(traced.lower().compile()(*args))
    except Exception as error:
        refused("run", type(error).__name__, str(error))
    number(result)
