import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from on_jax import mesh, put, run
from report import WRONG, data

mesh(cp=2)
x = put(data(1, 2, 8, 4), P(None, "cp", None))


@jax.shard_map(in_specs=P(None, "cp", None), out_specs=P(), check_vma=True)
def spread(x):
    s = jax.lax.all_gather(jnp.swapaxes(x, 1, 2), "cp", axis=1 if WRONG else 2, tiled=True, to="invarying")
    return jnp.sum(jnp.square(jax.nn.softmax(s, axis=-1)))


run(spread, x)
