import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

cp = 2
mesh(cp=cp)
x, w = put(data(1, 8, 4), P("cp", None)), put(data(2, 4), P(None))


def loss(w, x):
    return jnp.mean(jnp.square(x @ w)) * (cp if WRONG else 1)


run(lambda w, x: jnp.sum(jnp.square(jax.grad(loss)(w, x))), w, x)
