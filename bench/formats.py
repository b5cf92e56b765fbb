#!/usr/bin/env python3
"""Every format beside the package that people read it with: whole arrays, and one device's box of a sharded one.

Each case is one file of 512 MB, written by the format's own package and deleted afterwards. A round runs every contender
once, in turn; medians over the rounds. The page cache is warm, by mincore before and after; every result is compared
with what was written, after the clock has stopped; destinations are fresh memory. Timed is all from the path to the
array: opening, metadata, reading, decoding. Peak memory is that of the process above what it had before (VmHWM), the
result included.

    bench/formats.py [CASE…] [--rounds N] [--mb SIZE] [--results FOLDER]    without CASE: all; matched by their beginning
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import mmap
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import loadstone as ls
import numpy as np
import numpy.typing as npt
from support import Row, machine, same_bytes, versions

Array = npt.NDArray[Any]
Read = Callable[[], Any]
ROOT = pathlib.Path(__file__).resolve().parent.parent
THREADS = 2
LIBC = ctypes.CDLL(None, use_errno=True)


def elements(megabytes: int) -> Array:
    """Measurements with two digits after the point: they compress as such things do."""
    rng = np.random.default_rng(5)
    columns = 256
    rows = megabytes * 1_000_000 // 4 // columns // 4 * 4
    block = np.round(rng.standard_normal((1 << 18) + 1), 2).astype(np.float32)
    return np.resize(block, rows * columns).reshape(rows, columns)


def box_of(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """What one of four devices holds: the second half of the rows; of matrices, the first half of the columns."""
    if len(shape) == 1:
        return (slice(shape[0] // 4, shape[0] // 2),)
    return (slice(shape[0] // 2, shape[0]), slice(0, shape[1] // 2))


def ours(path: pathlib.Path, shape: tuple[int, ...], box: bool, **options: Any) -> Read:
    if not box:
        return lambda: ls.load(ls.open(path, **options), threads=THREADS).shards[0].data
    mesh = ls.Mesh({"x": 4}, processes=1) if len(shape) == 1 else ls.Mesh({"x": 2, "y": 2}, processes=1)
    sharding = ls.Sharding(mesh, ("x",) if len(shape) == 1 else ("x", "y"))
    process = 1 if len(shape) == 1 else 2
    return lambda: ls.load(ls.open(path, **options), sharding, process=process, threads=THREADS).shards[0].data


class Case:
    """One file, and for the whole array and for the box what reads it."""

    def __init__(self, path: pathlib.Path, want: Array, options: dict[str, Any] | None = None) -> None:
        self.path, self.want = path, want
        self.peers: dict[str, tuple[Read, Read]] = {}
        self.options = options or {}

    def contenders(self, box: bool) -> dict[str, Read]:
        readers = {"loadstone": ours(self.path, self.want.shape, box, **self.options)}
        return readers | {name: both[int(box)] for name, both in self.peers.items()}


def hdf5(path: pathlib.Path, array: Array, **options: Any) -> Case:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array, **options)
    case, box = Case(path, array), box_of(array.shape)

    def read(part: Any) -> Any:
        with h5py.File(path) as opened:
            return opened["x"][part]

    case.peers["h5py"] = (lambda: read(()), lambda: read(box))
    return case


def parquet(path: pathlib.Path, array: Array, compression: str, matrix: bool = False) -> Case:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"c{i}" for i in range(16)] if matrix else ["x"]
    want = array.reshape(-1, 16) if matrix else array.reshape(-1)
    columns = [np.ascontiguousarray(want[:, i]) for i in range(16)] if matrix else [want]
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path, compression=compression, use_dictionary=False,
                   write_page_checksum=True)  # fmt: skip
    case, box = Case(path, want, {"columns": names} if matrix else {}), box_of(want.shape)

    def values(table: Any) -> Array:
        if not matrix:
            return np.asarray(table.column(0).to_numpy())
        return np.column_stack([column.to_numpy() for column in table.columns])

    def read_box(checksums: bool) -> Array:
        file = pq.ParquetFile(path, page_checksum_verification=checksums)
        rows = file.metadata.row_group(0).num_rows
        first, last = box[0].start // rows, -(-box[0].stop // rows)
        table = file.read_row_groups(list(range(first, last)), names[: box[1].stop] if matrix else names)
        return values(table)[box[0].start - first * rows : box[0].stop - first * rows]

    for name, checksums in (("pyarrow", True), ("pyarrow, no checksums", False)):
        case.peers[name] = (
            lambda c=checksums: values(pq.read_table(path, page_checksum_verification=c)),  # type: ignore[misc]
            lambda c=checksums: read_box(c),  # type: ignore[misc]
        )
    return case


def feather(path: pathlib.Path, array: Array, compression: str) -> Case:
    import pyarrow as pa
    import pyarrow.feather as pf

    want = array.reshape(-1)
    pf.write_feather(pa.table({"x": want}), path, compression=compression, chunksize=1 << 20)
    case, (rows,) = Case(path, want), box_of(want.shape)

    def read_box(mapped: bool) -> Array:
        with pa.memory_map(str(path)) if mapped else pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as file:
            first, last = rows.start >> 20, -(-rows.stop >> 20)
            parts = [file.get_batch(i).column(0).to_numpy() for i in range(first, last)]
            begin = rows.start - (first << 20)
            # A copy: what only maps the file has not been loaded.
            return np.concatenate(parts)[begin : begin + rows.stop - rows.start]

    def read(mapped: bool) -> Array:
        return np.concatenate([chunk.to_numpy() for chunk in pf.read_table(path, memory_map=mapped).column(0).chunks])

    case.peers["pyarrow, mapped"] = (lambda: read(True), lambda: read_box(True))
    case.peers["pyarrow"] = (lambda: read(False), lambda: read_box(False))
    return case


def zarr3(path: pathlib.Path, array: Array, compressors: Any, shards: tuple[int, int] | None = None) -> Case:
    import tensorstore
    import zarr

    made: Any = zarr.create_array(str(path), shape=array.shape, dtype=array.dtype, chunks=(2000, 64), shards=shards,
                                  compressors=compressors)  # fmt: skip
    made[...] = array
    case, box = Case(path, array), box_of(array.shape)
    context = tensorstore.Context({"data_copy_concurrency": {"limit": THREADS}, "cache_pool": {"total_bytes_limit": 0}})
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}

    def by_zarr(part: Any) -> Any:
        found: Any = zarr.open_array(str(path), mode="r")
        return found[part]

    def by_tensorstore(part: Any) -> Any:
        return tensorstore.open(spec, context=context).result()[part].read().result()

    case.peers["zarr-python"] = (lambda: by_zarr(...), lambda: by_zarr(box))
    case.peers["tensorstore"] = (lambda: by_tensorstore(...), lambda: by_tensorstore(box))
    return case


def blosc() -> Any:
    import zarr.codecs

    return zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle=zarr.codecs.BloscShuffle.shuffle, typesize=4)


def zstd() -> Any:
    import zarr.codecs

    return zarr.codecs.ZstdCodec(level=3)


def safetensors(path: pathlib.Path, array: Array) -> Case:
    import safetensors.numpy as st
    from safetensors import safe_open

    st.save_file({"x": array}, path)
    case, box = Case(path, array), box_of(array.shape)

    def read_box() -> Any:
        with safe_open(path, framework="numpy") as file:
            return np.array(file.get_slice("x")[box])

    case.peers["safetensors"] = (lambda: st.load_file(path)["x"], read_box)
    return case


def npz(path: pathlib.Path, array: Array, compressed: bool) -> Case:
    (np.savez_compressed if compressed else np.savez)(path, x=array)
    case, box = Case(path, array), box_of(array.shape)

    def read(part: Any) -> Any:
        with np.load(path) as archive:
            return np.ascontiguousarray(archive["x"][part])

    case.peers["NumPy"] = (lambda: read(()), lambda: read(box))
    return case


CASES: dict[str, Callable[[pathlib.Path, Array], Case]] = {
    "hdf5 contiguous": lambda d, a: hdf5(d / "a.h5", a),
    "hdf5 gzip": lambda d, a: hdf5(d / "a.h5", a, chunks=(2000, 64), compression="gzip"),
    "hdf5 shuffle+gzip": lambda d, a: hdf5(d / "a.h5", a, chunks=(2000, 64), compression="gzip", shuffle=True),
    "parquet plain": lambda d, a: parquet(d / "a.parquet", a, "none"),
    "parquet snappy": lambda d, a: parquet(d / "a.parquet", a, "snappy"),
    "parquet zstd": lambda d, a: parquet(d / "a.parquet", a, "zstd"),
    "parquet 16 columns": lambda d, a: parquet(d / "a.parquet", a, "none", matrix=True),
    "feather plain": lambda d, a: feather(d / "a.feather", a, "uncompressed"),
    "feather lz4": lambda d, a: feather(d / "a.feather", a, "lz4"),
    "zarr plain": lambda d, a: zarr3(d / "a.zarr", a, None),
    "zarr zstd": lambda d, a: zarr3(d / "a.zarr", a, zstd()),
    "zarr blosc": lambda d, a: zarr3(d / "a.zarr", a, blosc()),
    "zarr sharded": lambda d, a: zarr3(d / "a.zarr", a, zstd(), shards=(20_000, 256)),
    "safetensors": lambda d, a: safetensors(d / "a.safetensors", a),
    "npz stored": lambda d, a: npz(d / "a.npz", a, False),
    "npz deflated": lambda d, a: npz(d / "a.npz", a, True),
}


def resident(path: pathlib.Path) -> float:
    """The share of a file's or folder's pages that is in the page cache, after reading all of it."""
    pages = there = 0
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        size = file.stat().st_size
        if size == 0:
            continue
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            while opened.read(1 << 24):
                pass
            count = -(-size // mmap.PAGESIZE)
            flags = (ctypes.c_ubyte * count)()
            address = np.frombuffer(mapped, np.uint8).ctypes.data
            if LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), flags) != 0:
                raise OSError(ctypes.get_errno(), "mincore")
            pages += count
            there += int((np.frombuffer(flags, np.uint8) & 1).sum())
            gc.collect()
    return there / max(pages, 1)


def memory(field: str) -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(field)


def run_once(read: Read, want: Array) -> tuple[float, int]:
    """Seconds and bytes of memory at most."""
    gc.collect()
    LIBC.malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    begin = time.perf_counter()
    result = read()
    seconds = time.perf_counter() - begin
    peak = memory("VmHWM") - before
    if not same_bytes(np.ascontiguousarray(result), want):
        raise RuntimeError("other bytes than were written")
    return seconds, peak


def measure(name: str, case: Case, box: bool, rounds: int) -> dict[str, Any]:
    import pyarrow

    want = np.ascontiguousarray(case.want[box_of(case.want.shape)]) if box else case.want
    readers = case.contenders(box)
    runs: dict[str, list[tuple[float, int]]] = {who: [] for who in readers}
    for number in range(rounds + 1):  # the first is not counted: imports, thread pools
        for who, read in readers.items():
            once = run_once(read, want)
            pyarrow.default_memory_pool().release_unused()
            if number > 0:
                runs[who].append(once)
    row = Row(f"{name}, {'box' if box else 'whole'}", want.nbytes)
    row.seconds = {who: [seconds for seconds, _ in times] for who, times in runs.items()}
    row.against("loadstone", best_peer(row), 1.5)
    out = row.result()
    for who, times in runs.items():
        out["contenders"][who]["peak_bytes"] = max(peak for _, peak in times)
    return out


def best_peer(row: Row) -> str:
    """Checksums are ours to verify, so a peer that leaves them out is shown, not compared with."""
    return min((n for n in row.seconds if n != "loadstone" and "no checksums" not in n), key=row.median)


def short_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| case | loadstone GB/s | best peer | GB/s | ratio | peak MB | peer's |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        (goal,) = row["goals"]
        who = goal["what"].removeprefix("loadstone against ")
        us, peer = row["contenders"]["loadstone"], row["contenders"][who]
        lines.append(
            f"| {row['row']} | {us['gb_per_s']:.2f} | {who} | {peer['gb_per_s']:.2f} | {goal['value']:.2f} | "
            f"{us['peak_bytes'] / 1e6:.0f} | {peer['peak_bytes'] / 1e6:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    given = parser.parse_args()
    names = [n for n in CASES if not given.cases or any(n.startswith(c) for c in given.cases)]
    if not names:
        sys.exit(f"no such case: known are {', '.join(CASES)}")
    import pyarrow as pa

    pa.set_cpu_count(THREADS)
    array = elements(given.mb)
    rows: list[dict[str, Any]] = []
    for name in names:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="loadstone-formats-", dir=given.folder))
        try:
            case = CASES[name](folder, array)
            os.sync()
            before = resident(case.path)
            found = [measure(name, case, box, given.rounds) for box in (False, True)]
            after = resident(case.path)
            if min(before, after) < 0.999:
                raise RuntimeError(f"{name}: only {min(before, after):.1%} of the pages were in the cache")
            rows += found
            print(short_table(found).split("\n", 2)[2], file=sys.stderr)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    # What another run has measured of other cases stays beside, with its machine and commit.
    output = given.results / "formats.json"
    report: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {"question": "formats"}
    packages = versions("numpy", "h5py", "pyarrow", "zarr", "tensorstore", "safetensors")
    kept = [row for row in report.get("rows", []) if row["row"].rsplit(",", 1)[0] not in names]
    order = {name: number for number, name in enumerate(CASES)}
    every = sorted(kept + [row | {"commit": machine()["commit"]} for row in rows], key=lambda r: order[r["row"].rsplit(",", 1)[0]])
    report |= {"machine": machine(), "packages": packages, "rounds": given.rounds, "rows": every}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=1) + "\n")
    print(short_table(every))


if __name__ == "__main__":
    main()
