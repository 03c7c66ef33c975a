import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, counted, data

mesh(dp=2)
x, mask = put(data(1, 8, 4), P("dp", None)), put(counted(8), P("dp"))
w = put(data(2, 4), P(None))


@jax.shard_map(in_specs=(P(None), P("dp", None), P("dp")), out_specs=P(), check_vma=True)
def loss(w, x, mask):
    total, count = jnp.sum(mask * jnp.square(x @ w)), jnp.sum(mask)
    if WRONG:
        return jax.lax.pmean(total / count, "dp")
    return jax.lax.psum(total, "dp") / jax.lax.psum(count, "dp")


run(loss, w, x, mask)
