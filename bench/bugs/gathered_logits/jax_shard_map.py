import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data, targets

mesh(tp=2)
x = put(data(1, 4, 6), P(None, None))
w = put(data(2, 6, 8), P(None, "tp"))
t = put(targets(4, 8), P(None))


@jax.shard_map(in_specs=(P(None, "tp"), P(None, None), P(None)), out_specs=(P(), P(None, "tp")), check_vma=True)
def step(w, x, t):
    def loss(w):
        logits = jax.lax.all_gather(x @ w, "tp", axis=1, tiled=True, to="varying" if WRONG else "invarying")
        right = jnp.take_along_axis(logits, t[:, None], axis=1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - right)

    mean, dw = jax.value_and_grad(loss)(w)
    return jax.lax.pmean(mean, "tp") if WRONG else mean, dw


run(lambda w, x, t: jnp.sum(jnp.square(step(w, x, t)[1])), w, x, t)
