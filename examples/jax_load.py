"""Loads a directory of shard files into a jax.Array over eight host devices, and proves it.

Usage: jax_load.py DIR
"""

import os
import sys

# Eight CPU devices, so that sharding can be tried on any machine. Set before JAX starts.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
import loadstone as ls
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def main(directory: str) -> None:
    catalog = ls.open(directory)
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
    sharding = NamedSharding(mesh, P("x", "y"))

    array = ls.jax.load(catalog, sharding)
    assert isinstance(array, jax.Array)
    print("jax.Array", array.shape, array.dtype, "on", len(array.sharding.device_set), "devices")
    for shard in array.addressable_shards:
        print(f"  {shard.device}: {shard.index}")

    verdict = ls.verify(array, catalog)
    print("verified:", verdict.ok, f"({verdict.bytes_verified} bytes)")
    print("sum on the devices:", jax.jit(lambda a: a.sum())(array))


if __name__ == "__main__":
    main(sys.argv[1])
