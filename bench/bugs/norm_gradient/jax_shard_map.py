import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
x = put(data(1, 8, 4), P("tp", None))
weight = put(data(2, 4), P(None))


@jax.shard_map(in_specs=(P(None), P("tp", None)), out_specs=P(None), check_vma=True)
def stepped(weight, x):
    def loss(weight):
        normed = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=1, keepdims=True) + 1e-5)
        return jnp.sum(jnp.square(normed * weight)) / 32

    gradient = jax.grad(loss)(jax.lax.pcast(weight, "tp", to="varying"))
    if not WRONG:
        gradient = jax.lax.psum(gradient, "tp")
    return weight - 0.5 * gradient


run(lambda weight, x: jnp.sum(jnp.square(stepped(weight, x))), weight, x)
