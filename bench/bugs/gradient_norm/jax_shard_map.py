import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
whole, sinks = put(data(1, 6), P(None)), put(data(2, 8), P("tp"))


@jax.shard_map(in_specs=(P(None), P("tp")), out_specs=P(), check_vma=True)
def norm(whole, sinks):
    squares = jnp.sum(jnp.square(sinks))
    if not WRONG:
        squares = jax.lax.psum(squares, "tp")
    return jnp.sqrt(jnp.sum(jnp.square(whole)) + squares)


run(norm, whole, sinks)
