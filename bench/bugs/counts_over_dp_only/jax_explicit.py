import jax.numpy as jnp
from jax.sharding import PartitionSpec as P, reshard

from on_jax import mesh, put, run
from report import WRONG, chosen

mesh(dp=2, tp=2)
routed = put(chosen(4, 4, 3), P("dp", "tp", None))


def imbalance(routed):
    counts = jnp.einsum("bse->e", routed, out_sharding=P(None, unreduced={"dp", "tp"}))
    counts = reshard(counts, P(None, unreduced={"tp"}) if WRONG else P(None))
    return jnp.sum(jnp.abs(counts - 16 / 3))


run(imbalance, routed)
