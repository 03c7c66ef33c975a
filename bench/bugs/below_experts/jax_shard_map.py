import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
x, gate = put(data(1, 4, 6), P(None, None)), put(data(2, 6, 6), P(None, None))
w1, w2 = put(data(3, 6, 8), P(None, "tp")), put(data(4, 8, 6), P("tp", None))


@jax.shard_map(in_specs=(P(None, None), P(None, None), P(None, "tp"), P("tp", None)), out_specs=P(None, None), check_vma=True)
def gradient(gate, x, w1, w2):
    def loss(gate):
        a = jnp.tanh(x @ gate)
        if not WRONG:
            a = jax.lax.pcast(a, "tp", to="varying")
        y = jax.lax.psum(jax.nn.silu(a @ w1) @ w2, "tp")
        return jnp.mean(jnp.square(y))

    return jax.grad(loss)(gate)


run(lambda *all: jnp.sum(jnp.square(gradient(*all))), gate, x, w1, w2)
