import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(tp=2)
z = put(data(1, 8, 4), P("tp", None))


@jax.shard_map(in_specs=P("tp", None), out_specs=P(), check_vma=True)
def loss(z):
    tokens = z.shape[0] if WRONG else z.shape[0] * jax.lax.axis_size("tp")
    return jax.lax.pmean(jnp.mean(jnp.square(z)), "tp") * tokens / 8


run(loss, z)
