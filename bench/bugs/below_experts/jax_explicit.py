import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P, reshard

from on_jax import mesh, put, run
from report import data

# WRONG is the same program: whether the gradient of `a` needs a sum follows from the types, and nothing can be left out.
mesh(tp=2)
x, gate = put(data(1, 4, 6), P(None, None)), put(data(2, 6, 6), P(None, None))
w1, w2 = put(data(3, 6, 8), P(None, "tp")), put(data(4, 8, 6), P("tp", None))


def loss(gate, x, w1, w2):
    a = jnp.tanh(x @ gate)
    y = jnp.einsum("bf,fh->bh", jax.nn.silu(a @ w1), w2, out_sharding=P(None, None))
    return jnp.mean(jnp.square(y))


run(lambda gate, *rest: jnp.sum(jnp.square(jax.grad(loss)(gate, *rest))), gate, x, w1, w2)
