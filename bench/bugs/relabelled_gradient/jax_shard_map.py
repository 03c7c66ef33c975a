import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
x, w = put(data(1, 4, 6), P(None, None)), put(data(2, 6, 6), P(None, None))
head = put(data(3, 6, 8), P(None, "tp"))


@jax.shard_map(in_specs=(P(None, None), P(None, None), P(None, "tp")), out_specs=P(None, None), check_vma=True)
def gradient(w, x, head):
    a, body = jax.vjp(lambda w: jnp.tanh(x @ w), w)
    da = jax.grad(lambda a: jnp.sum(jnp.square(a @ head)) / 32)(jax.lax.pcast(a, "tp", to="varying"))
    if not WRONG:
        da = jax.lax.psum(da, "tp")
    [dw] = body(da)
    return dw


run(lambda *all: jnp.sum(jnp.square(gradient(*all))), w, x, head)
