import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
h = put(data(1, 4, 8), P(None, "tp"))
v = put(data(2, 8, 4), P("tp", None))
b = put(data(3, 4), P(None))


@jax.shard_map(in_specs=(P(None, "tp"), P("tp", None), P(None)), out_specs=P(), check_vma=True)
def loss(h, v, b):
    y = jax.lax.psum(h @ v + b, "tp") if WRONG else jax.lax.psum(h @ v, "tp") + b
    return jnp.mean(jnp.square(y))


run(loss, h, v, b)
