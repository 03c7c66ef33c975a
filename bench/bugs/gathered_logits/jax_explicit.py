import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P, reshard

from on_jax import mesh, put, run
from report import WRONG, data, targets

mesh(tp=2)
x = put(data(1, 4, 6), P(None, None))
w = put(data(2, 6, 8), P(None, "tp"))
t = put(targets(4, 8), P(None))


def loss(w, x, t):
    logits = reshard(x @ w, P(None, None, reduced={"tp"}) if WRONG else P(None, None))
    right = jnp.sum(logits * jax.nn.one_hot(t, 8), axis=1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - right)


def squared_norm(w, x, t):
    dw = jax.grad(loss)(w, x, t)
    return jnp.sum(jnp.square(dw))


run(squared_norm, w, x, t)
