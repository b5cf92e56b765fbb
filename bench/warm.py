#!/usr/bin/env python3
"""The main job from the page cache: uneven .npy shards of one array into the memory of one process.

Touched: into memory that was written before, beside bare pread of the same bytes by as many threads.
Fresh: as a user gets it, the memory made anew for each load, on one device and on eight, beside bare pread into fresh
huge pages and the libraries people use for this. Before each run as much memory is touched once and given back: the
first touch ever made of a virtual machine's memory costs the host, not the contender, and is reported apart.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from support import Ceilings, DataSet, Row, arguments, check_whole, publish, versions

import loadstone as ls


def touched_row(data: DataSet, ceilings: Ceilings, rounds: int, threads: int) -> Row:
    catalog = ls.open(data.files)
    out = np.ones(data.array.shape, np.float32)
    bare = np.ones(data.nbytes, np.uint8)
    row = Row("warm, destination touched", data.nbytes)

    def check(name: str, result: Any) -> None:
        found = bare.view(np.float32).reshape(data.array.shape) if name.startswith("pread") else out
        check_whole(data)(name, found)
        found[:: max(found.shape[0] // 1000, 1)] = 0

    row.time({f"pread, {threads} threads": lambda: ceilings.read(data, bare.ctypes.data, threads),
              "loadstone, out=": lambda: ls.load(catalog, out=out),
              f"pread, {threads} threads, windows of 256 KiB": lambda: ceilings.read(data, bare.ctypes.data, threads, 256 << 10)},
             rounds, check=check)
    row.against("loadstone, out=", f"pread, {threads} threads", 0.95)
    return row


def peers(data: DataSet) -> dict[str, Callable[[], Any]]:
    import jax
    import safetensors.numpy
    import safetensors.torch
    import tensorstore
    import torch
    from jax.sharding import NamedSharding, PartitionSpec

    sharding = NamedSharding(jax.make_mesh((8,), ("x",)), PartitionSpec("x"))
    memmaps = [np.load(path, mmap_mode="r") for path in data.files]
    starts = np.cumsum([0] + [len(part) for part in memmaps])

    def rows(index: tuple[slice, ...]) -> Any:
        low, high, _ = index[0].indices(len(data.array))
        parts = [m[max(low - s, 0) : high - s] for m, s in zip(memmaps, starts, strict=False) if s < high and s + len(m) > low]
        return np.concatenate(parts) if len(parts) > 1 else np.array(parts[0])

    safe = [path.with_suffix(".safetensors") for path in data.files]
    stores = []
    for path, to in zip(data.files, safe, strict=True):
        part = np.load(path)
        safetensors.numpy.save_file({"x": part}, to)
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path.with_suffix(".zarr"))}}
        metadata = {"shape": list(part.shape), "chunks": [min(len(part), 1024), part.shape[1]], "dtype": "<f4", "compressor": None}
        store = tensorstore.open({**spec, "metadata": metadata}, create=True, delete_existing=True).result()
        store.write(part).result()
        stores.append(tensorstore.open(spec, context=tensorstore.Context({"cache_pool": {"total_bytes_limit": 0}})).result())
    stacked = tensorstore.concat(stores, axis=0)
    os.sync()
    return {
        "jax.make_array_from_callback of memmaps, 8": lambda: jax.block_until_ready(
            jax.make_array_from_callback(data.array.shape, sharding, rows)),
        "jax.device_put of np.concatenate, 8": lambda: jax.block_until_ready(
            jax.device_put(np.concatenate(memmaps), sharding)),
        "np.concatenate of memmaps": lambda: np.concatenate(memmaps),
        "np.concatenate of np.load": lambda: np.concatenate([np.load(path) for path in data.files]),
        "torch.cat of torch.from_numpy": lambda: torch.cat([torch.from_numpy(np.load(path)) for path in data.files]).numpy(),
        "safetensors, torch.cat": lambda: torch.cat([safetensors.torch.load_file(path)["x"] for path in safe]).numpy(),
        "safetensors, np.concatenate": lambda: np.concatenate([safetensors.numpy.load_file(path)["x"] for path in safe]),
        "tensorstore, zarr 2 without compression": lambda: stacked.read().result(),
    }


def fresh_row(data: DataSet, ceilings: Ceilings, rounds: int, threads: int) -> Row:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    catalog = ls.open(data.files)
    eight = ls.Sharding(ls.Mesh({"x": 8}), ("x",))
    in_jax = NamedSharding(jax.make_mesh((8,), ("x",)), PartitionSpec("x"))

    def bare() -> None:
        with ceilings.fresh(data.nbytes) as memory:
            ceilings.read(data, memory, threads)

    ours: dict[str, Callable[[], Any]] = {
        "pread, fresh huge pages": bare,
        "ls.load, 1 device": lambda: ls.load(catalog),
        "ls.load, 8 devices": lambda: ls.load(catalog, eight),
        "ls.jax.load, 8 devices": lambda: jax.block_until_ready(ls.jax.load(catalog, in_jax)),
    }
    others = peers(data)
    data.warm(ceilings)
    row = Row("warm, fresh memory, as a user gets it", data.nbytes)
    touches = []
    for _ in range(3):
        start = time.perf_counter()
        ceilings.touch(2 * data.nbytes)
        touches.append(round(2 * data.nbytes / (time.perf_counter() - start) / 1e9, 2))
    row.notes["touching_gb_per_s_first_and_after"] = touches
    row.time(ours | others, rounds, before=lambda: ceilings.touch(2 * data.nbytes), check=check_whole(data))
    best = min(others, key=row.median)
    for name in list(ours)[1:]:
        row.against(name, "pread, fresh huge pages", 0.95)
        room = row.ratio(best, "pread, fresh huge pages")[0]
        row.against(name, best, 2.0 if 1 / room >= 2.1 else 1.0)
    return row


def main() -> int:
    options = arguments(__doc__)
    threads = len(os.sched_getaffinity(0))
    ceilings = Ceilings()
    data = DataSet(options.folder, (int(options.bytes) // 16384 // 8 * 8, 4096))
    try:
        data.warm(ceilings)
        rows = []
        if options.only in "touched":
            rows.append(touched_row(data, ceilings, options.rounds, threads))
        if options.only in "fresh":
            rows.append(fresh_row(data, ceilings, options.rounds, threads))
        share = ceilings.resident_share(data.files)
    finally:
        data.close()
    return publish("warm", rows, options, resident_after=share,
                   versions=versions("numpy", "jax", "torch", "safetensors", "tensorstore"))


if __name__ == "__main__":
    sys.exit(main())
