#!/usr/bin/env python3
"""The plan of one process of 65,536 devices over 100,000 shards: time and memory, without touching the files' data.

devices_indices_map is measured over 512 host devices; its time a device, carried on to 65,536, is in the JSON as such.
The plan's memory is what the process grows by: 0 where memory that was freed before sufficed."""

import os
import pathlib
import shutil
import sys
import tempfile

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=512")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from support import Row, arguments, publish, versions

import loadstone as ls

FILES, DEVICES, LOCAL = 100_000, 65_536, 8


def resident_bytes() -> int:
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    options = arguments(__doc__)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="loadstone-bench-", dir=options.folder))
    try:
        np.save(folder / "first.npy", np.zeros((64, 128), np.float32))
        content = (folder / "first.npy").read_bytes()[:128]
        (folder / "first.npy").unlink()
        for number in range(FILES):
            path = folder / f"shard_{number:06d}.npy"
            path.write_bytes(content)
            os.truncate(path, 128 + 64 * 128 * 4)
        catalog = ls.open(folder)
    finally:
        shutil.rmtree(folder)
    shape = catalog.arrays[0].shape
    mesh = ls.Mesh({"data": 4096, "model": 16}, processes=LOCAL)
    sharding = ls.Sharding(mesh, ("data", "model"), uneven="ceil")
    few = NamedSharding(jax.make_mesh((32, 16), ("data", "model")), PartitionSpec("data", "model"))
    some = (shape[0] // 512 * 512, shape[1])

    def index_map() -> int:
        fresh = NamedSharding(few.mesh, few.spec)
        return len(fresh.devices_indices_map((some[0] - 512 * index_map.calls, some[1]))) + bump()

    index_map.calls = 0  # type: ignore[attr-defined]

    def bump() -> int:
        index_map.calls += 1  # type: ignore[attr-defined]  # another shape each time: JAX keeps what it has worked out
        return 0

    row = Row(f"plan of one process of {DEVICES:,} devices, {FILES:,} shards")
    row.time({"ls.plan": lambda: ls.plan(catalog, sharding, process=4321),
              "devices_indices_map, 512 devices": index_map}, max(options.rounds, 5))
    before = resident_bytes()
    plan = ls.plan(catalog, sharding, process=4321)
    grown = resident_bytes() - before
    row.notes |= {"memory_grown": grown, "reads": str(plan).count("\n"),
                  "devices_indices_map_carried_to_65536_s": round(row.median("devices_indices_map, 512 devices") * DEVICES / 512, 3)}
    row.goal("ls.plan", row.median("ls.plan") * 1e3, 50, at_most=True, unit=" ms")
    row.goal("memory of the plan", grown / 1e6, 16, at_most=True, unit=" MB")
    return publish("planning", [row], options, versions=versions("jax"))


if __name__ == "__main__":
    sys.exit(main())
