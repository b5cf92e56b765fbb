#!/usr/bin/env python3
"""Boxes of a matrix instead of rows, from the page cache: 4096 x 65536 float32 in 16 uneven .npy shards.

Columns over 8 devices, 2-D boxes, and the same array in Fortran order and big-endian,
beside what people do in Python. The ceiling is a bare pread of the same number of bytes into fresh memory.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
import tensorstore
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from support import Ceilings, DataSet, Row, arguments, check_whole, publish, versions

import loadstone as ls

SHAPE = (4096, 65536)


def box_reader(data: DataSet) -> Callable[[tuple[slice, ...]], Any]:
    """A box of the stacked memmaps as people write it: slice each file, then one C-order array in native order."""
    memmaps = [np.load(path, mmap_mode="r") for path in data.files]
    starts = np.cumsum([0] + [len(part) for part in memmaps])

    def read(index: tuple[slice, ...]) -> Any:
        low, high, _ = index[0].indices(SHAPE[0])
        out = np.empty((high - low, len(range(SHAPE[1])[index[1]])), np.float32)
        for part, start in zip(memmaps, starts, strict=False):
            a, b = max(low, start), min(high, start + len(part))
            if a < b:
                out[a - low : b - low] = part[a - start : b - start, index[1]]
        return out

    return read


def stores_of(data: DataSet) -> Any:
    """The same array for tensorstore: a zarr store beside each file, without compression, chunks of a megabyte."""
    stores = []
    for path in data.files:
        part = np.load(path)
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path.with_suffix(".zarr"))}}
        metadata = {"shape": list(part.shape), "chunks": [32, 8192], "dtype": part.dtype.newbyteorder("<").str,
                    "compressor": None, "order": "F" if np.isfortran(part) else "C"}
        if part.dtype.byteorder == ">":
            metadata["dtype"] = ">f4"
        store = tensorstore.open({**spec, "metadata": metadata}, create=True, delete_existing=True).result()
        store.write(part).result()
        stores.append(tensorstore.open(spec, context=tensorstore.Context({"cache_pool": {"total_bytes_limit": 0}})).result())
    return tensorstore.concat(stores, axis=0)


def boxes_row(name: str, ceilings: Ceilings, options: Any, mesh: dict[str, int], spec: tuple[str | None, ...],
              goal: float, **layout: Any) -> Row:
    data = DataSet(options.folder, SHAPE, **layout)
    try:
        read, stacked = box_reader(data), stores_of(data)
        data.warm(ceilings)
        catalog = ls.open(data.files)
        sharding = ls.Sharding(ls.Mesh(mesh), spec)
        devices = np.array(jax.devices()[:8]).reshape(tuple(mesh.values()))
        in_jax = NamedSharding(Mesh(devices, tuple(mesh)), PartitionSpec(*spec))
        places = in_jax.addressable_devices_indices_map(SHAPE)
        boxes = [places[device] for device in devices.reshape(-1)]
        row = Row(name, data.nbytes)
        ours: list[Any] = []

        def load() -> Any:
            placement = ls.load(catalog, sharding)
            ours.append(placement.stats)
            return placement

        def bare() -> None:
            with ceilings.fresh(data.nbytes) as memory:
                ceilings.read(data, memory, len(os.sched_getaffinity(0)))

        def check(contender: str, result: Any) -> None:
            if isinstance(result, list):
                for part, index in zip(result, boxes, strict=True):
                    check_part(contender, part, index)
            else:
                check_whole(data)(contender, result)

        def check_part(contender: str, part: Any, index: Any) -> None:
            if not np.array_equal(np.asarray(part, np.float32).view(np.uint32), data.array[index].view(np.uint32)):
                raise RuntimeError(f"{contender}: bytes differ")

        row.time({
            "pread, fresh huge pages": bare,
            "ls.load": load,
            "NumPy memmaps": lambda: [read(index) for index in boxes],
            "tensorstore, zarr 2 without compression": lambda: [f.result() for f in [stacked[index].read() for index in boxes]],
            "jax.make_array_from_callback of memmaps": lambda: jax.block_until_ready(
                jax.make_array_from_callback(SHAPE, in_jax, read)),
        }, options.rounds, before=lambda: ceilings.touch(data.nbytes + (1 << 28)), check=check)
        row.against("ls.load", "pread, fresh huge pages", goal)
        for peer in list(row.seconds)[2:]:
            row.against("ls.load", peer, 1.0)
        row.goal("bytes read over bytes needed", ours[-1]["bytes_read"] / data.nbytes, 1.05, at_most=True, unit=" x")
        return row
    finally:
        data.close()


def main() -> int:
    options = arguments(__doc__)
    ceilings = Ceilings()
    wanted = {
        "columns over 8 devices, spec -,x": lambda name: boxes_row(name, ceilings, options, {"x": 8}, (None, "x"), 0.6),
        "boxes over 2 x 4 devices, spec x,y": lambda name: boxes_row(name, ceilings, options, {"x": 2, "y": 4}, ("x", "y"), 0.6),
        "Fortran order, rows over 8 devices": lambda name: boxes_row(name, ceilings, options, {"x": 8}, ("x", None), 0.6, order="F"),
        "big-endian, rows over 8 devices": lambda name: boxes_row(name, ceilings, options, {"x": 8}, ("x", None), 0.6, dtype=">f4"),
    }
    rows = [make(name) for name, make in wanted.items() if options.only in name]
    return publish("columns", rows, options, versions=versions("numpy", "jax", "tensorstore"))


if __name__ == "__main__":
    sys.exit(main())
