import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
x = put(data(1, 8, 4), P("tp", None))
w1, w2 = put(data(2, 4, 8), P(None, "tp")), put(data(3, 8, 4), P("tp", None))


@jax.shard_map(in_specs=(P("tp", None), P(None, "tp"), P("tp", None)), out_specs=P(), check_vma=True)
def loss(x, w1, w2):
    if not WRONG:
        x = jax.lax.all_gather(x, "tp", axis=0, tiled=True)
    y = jax.lax.psum_scatter(jax.nn.silu(x @ w1) @ w2, "tp", scatter_dimension=0, tiled=True)
    return jax.lax.pmean(jnp.mean(jnp.square(y)), "tp")


run(loss, x, w1, w2)
