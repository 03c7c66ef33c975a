import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P, reshard

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
x, w = put(data(1, 4, 6), P(None, None)), put(data(2, 6, 6), P(None, None))
head = put(data(3, 6, 8), P(None, "tp"))


def squared_norm(w, x, head):
    a, body = jax.vjp(lambda w: jnp.tanh(x @ w), w)
    da = jax.grad(lambda a: jnp.mean(jnp.square(a @ head)))(reshard(a, P(None, None, reduced={"tp"})))
    if not WRONG:
        da = reshard(da, P(None, None))
    [dw] = body(da)
    return jnp.sum(jnp.square(dw))


run(squared_norm, w, x, head)
