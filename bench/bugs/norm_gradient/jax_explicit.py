import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P, reshard

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
x = put(data(1, 8, 4), P("tp", None))
weight = put(data(2, 4), P(None, reduced={"tp"}))  # the same on every rank; its gradient is left to be summed later


def loss(weight, x):
    normed = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=1, keepdims=True) + 1e-5)
    return jnp.mean(jnp.square(jnp.einsum("sh,h->sh", normed, weight)))


def stepped(weight, x):
    gradient = jax.grad(loss)(weight, x)
    if not WRONG:
        gradient = reshard(gradient, P(None))
        weight = reshard(weight, P(None))
    return jnp.sum(jnp.square(weight - 0.5 * gradient))


run(stepped, weight, x)
