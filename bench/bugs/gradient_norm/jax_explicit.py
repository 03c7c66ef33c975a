import jax.numpy as jnp
from jax.sharding import PartitionSpec as P, reshard

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
whole, sinks = put(data(1, 6), P(None)), put(data(2, 8), P("tp"))


def norm(whole, sinks):
    squares = jnp.einsum("h,h->", sinks, sinks, out_sharding=P(unreduced={"tp"}))
    if not WRONG:
        squares = reshard(squares, P())
    return jnp.sqrt(jnp.sum(jnp.square(whole)) + squares)


run(norm, whole, sinks)
