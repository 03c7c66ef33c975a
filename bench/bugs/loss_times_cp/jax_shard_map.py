import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

cp = 2
mesh(cp=cp)
x, w = put(data(1, 8, 4), P("cp", None)), put(data(2, 4), P(None))


@jax.shard_map(in_specs=(P(None), P("cp", None)), out_specs=P(None), check_vma=True)
def gradient(w, x):
    def loss(w):
        return jax.lax.psum(jnp.sum(jnp.square(x @ w)), "cp") / 8 * (cp if WRONG else 1)

    return jax.grad(loss)(w)


run(lambda w, x: jnp.sum(jnp.square(gradient(w, x))), w, x)
