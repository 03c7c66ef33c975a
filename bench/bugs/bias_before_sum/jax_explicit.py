import jax.numpy as jnp
from jax.sharding import PartitionSpec as P, reshard

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
h = put(data(1, 4, 8), P(None, "tp"))
v = put(data(2, 8, 4), P("tp", None))
b = put(data(3, 4), P(None))


def loss(h, v, b):
    y = jnp.einsum("bf,fh->bh", h, v, out_sharding=P(unreduced={"tp"}))
    y = reshard(y + b, P()) if WRONG else reshard(y, P()) + b
    return jnp.mean(jnp.square(y))


run(loss, h, v, b)
