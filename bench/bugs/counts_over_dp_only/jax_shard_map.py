import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, chosen

mesh(dp=2, tp=2)
routed = put(chosen(4, 4, 3), P("dp", "tp", None))


@jax.shard_map(in_specs=P("dp", "tp", None), out_specs=P(), check_vma=True)
def imbalance(routed):
    counts = jax.lax.psum(jnp.sum(routed, (0, 1)), "dp" if WRONG else ("dp", "tp"))
    return jnp.sum(jnp.abs(counts - 16 / 3))


run(imbalance, routed)
