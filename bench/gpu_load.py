#!/usr/bin/env python3
"""Files to one GPU: how much of the link a load takes, beside bare copies and, with --peers, other libraries.

Every row is one data set, written, used and deleted. A repetition runs each contender once, in turn; the bare
pinned host-to-device copy (or the bare O_DIRECT read) of as many bytes is one of them. Reported are medians and the
range of the paired ratios. Timed is a load from an open catalog until the host has waited; bytes are compared with the
file's after the clock has stopped. Cache state is proven by mincore.
"""

import argparse
import ctypes
import gc
import json
import mmap
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

GB = 1e9
PAGE = mmap.PAGESIZE
Contender = Callable[[], Any]


class Cuda:
    """The driver's own calls, for the bare copies."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: Any) -> None:
        result = getattr(self.lib, name)(*args)
        if result != 0:
            raise RuntimeError(f"{name} answered {result}")

    def device_memory(self, nbytes: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(nbytes))
        return pointer

    def pinned_memory(self, nbytes: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.call("cuMemAllocHost_v2", ctypes.byref(pointer), ctypes.c_size_t(nbytes))
        ctypes.memset(pointer, 1, nbytes)
        return pointer

    def to_host(self, pointer: int, nbytes: int, out: np.ndarray[Any, Any]) -> None:
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(pointer), ctypes.c_size_t(nbytes))


class PinnedCopy:
    """As many bytes from one pinned buffer to the device, in pieces of the buffer's size: the ceiling of the link."""

    def __init__(self, cuda: Cuda, nbytes: int) -> None:
        self.cuda, self.nbytes = cuda, nbytes
        self.step = min(nbytes, 1 << 30)
        self.host = cuda.pinned_memory(self.step)
        self.device = cuda.device_memory(nbytes)

    def __call__(self) -> None:
        for at in range(0, self.nbytes, self.step):
            size = min(self.step, self.nbytes - at)
            self.cuda.call("cuMemcpyHtoDAsync_v2", ctypes.c_void_p(self.device.value + at), self.host,
                           ctypes.c_size_t(size), None)
        self.cuda.call("cuCtxSynchronize")

    def close(self) -> None:
        self.cuda.call("cuMemFree_v2", self.device)
        self.cuda.call("cuMemFreeHost", self.host)


def read_direct(files: list[pathlib.Path], threads: int = 16, chunk: int = 8 << 20) -> None:
    """All bytes of the files with O_DIRECT: the ceiling of a cold disk."""
    work = [(path, at) for path in files for at in range(0, path.stat().st_size, chunk)]
    lock = threading.Lock()

    def reader() -> None:
        buffer = mmap.mmap(-1, chunk)
        opened: dict[pathlib.Path, int] = {}
        while True:
            with lock:
                if not work:
                    break
                path, at = work.pop(0)
            if path not in opened:
                opened[path] = os.open(path, os.O_RDONLY | os.O_DIRECT)
            os.preadv(opened[path], [buffer], at)
        for descriptor in opened.values():
            os.close(descriptor)

    crew = [threading.Thread(target=reader) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()


def resident_share(files: list[pathlib.Path]) -> float:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    pages = resident = 0
    for path in files:
        size = path.stat().st_size
        descriptor = os.open(path, os.O_RDONLY)
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        os.close(descriptor)
        count = (size + PAGE - 1) // PAGE
        states = (ctypes.c_ubyte * count)()
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), states) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
        pages += count
        resident += int(np.frombuffer(states, np.uint8).__and__(1).sum())
    return resident / pages


def drop_caches(files: list[pathlib.Path]) -> None:
    os.sync()
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")
    share = resident_share(files)
    if share > 0.001:
        raise RuntimeError(f"{share:.1%} of the pages are still in the cache")


def uneven(rows: int, count: int, rng: np.random.Generator) -> list[int]:
    cuts = np.sort(rng.choice(np.arange(1, rows), count - 1, replace=False))
    return [int(n) for n in np.diff(np.concatenate([[0], cuts, [rows]]))]


class DataSet:
    """Uneven .npy shards of one float32 array of `columns` columns, and the bytes they hold."""

    def __init__(self, folder: pathlib.Path, nbytes: int, columns: int, shards: int = 16, order: str = "C",
                 dtype: str = "<f4") -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpu-load-", dir=folder))
        rng = np.random.default_rng(5)
        rows = nbytes // (columns * 4)
        self.shape = (rows, columns)
        self.nbytes = rows * columns * 4
        block = rng.integers(0, 2**32, (1 << 22) + 1, np.uint32)  # odd length: no row repeats another at a power of two
        self.array = np.resize(block, rows * columns).reshape(rows, columns).view(np.float32)
        self.files = []
        at = 0
        for number, count in enumerate(uneven(rows, shards, rng)):
            path = self.folder / f"shard_{number:04d}.npy"
            part = self.array[at : at + count]
            np.save(path, np.asarray(part.astype(dtype) if dtype != "<f4" else part, order=order))
            self.files.append(path)
            at += count
        os.sync()

    def warm(self) -> None:
        for path in self.files:
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass
        share = resident_share(self.files)
        if share < 0.999:
            raise RuntimeError(f"only {share:.1%} of the pages are in the cache")

    def close(self) -> None:
        shutil.rmtree(self.folder)


class Row:
    """One question: contenders timed in turn; the first named `ceiling` is what ratios are against."""

    def __init__(self, name: str, nbytes: int, goal: str) -> None:
        self.name, self.nbytes, self.goal = name, nbytes, goal
        self.seconds: dict[str, list[float]] = {}
        self.notes: dict[str, Any] = {}

    def time(self, contenders: dict[str, Contender], repetitions: int, before: Callable[[], None] | None = None,
             check: Callable[[str, Any], None] | None = None, warm_up: bool = True) -> None:
        for repetition in range(repetitions + (1 if warm_up else 0)):
            for name, run in contenders.items():
                gc.collect()
                if before is not None:
                    before()
                start = time.perf_counter()
                result = run()
                seconds = time.perf_counter() - start
                if check is not None:
                    check(name, result)
                del result
                if repetition > 0 or not warm_up:
                    self.seconds.setdefault(name, []).append(seconds)

    def rate(self, name: str) -> float:
        return self.nbytes / statistics.median(self.seconds[name]) / GB

    def ratio(self, ours: str, other: str) -> tuple[float, float, float]:
        pairs = [b / a for a, b in zip(self.seconds[ours], self.seconds[other], strict=True)]
        return statistics.median(pairs), min(pairs), max(pairs)

    def report(self, ours: str, other: str) -> dict[str, Any]:
        median, low, high = self.ratio(ours, other)
        line = {
            "row": self.name, "bytes": self.nbytes, "goal": self.goal, "of": other,
            "ratio": round(median, 4), "low": round(low, 4), "high": round(high, 4),
            "gb_per_s": {name: round(self.rate(name), 2) for name in self.seconds},
            "seconds": {name: [round(s, 4) for s in times] for name, times in self.seconds.items()},
            **self.notes,
        }
        print(f"{self.name:<44} {self.rate(ours):7.2f} GB/s  {median:6.3f} of {other} ({low:.3f}-{high:.3f})  goal {self.goal}",
              flush=True)
        return line


def machine() -> dict[str, Any]:
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], text=True,
                         capture_output=True, check=False).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], text=True, capture_output=True, check=False)
    return {
        "gpu": gpu, "cores": os.cpu_count(), "system": " ".join(os.uname()[i] for i in (0, 2)),
        "commit": os.environ.get("LOADSTONE_COMMIT") or commit.stdout.strip() or "unknown",
        "date": time.strftime("%Y-%m-%d"),
    }


def placed_bytes(cuda: Cuda, placement: Any) -> list[np.ndarray[Any, Any]]:
    out = []
    for shard in placement.shards:
        view = shard.data
        host = np.empty(view.nbytes, np.uint8)
        cuda.to_host(view.ptr, view.nbytes, host)
        out.append(host)
    return out


class Rows:
    def __init__(self, folder: pathlib.Path, nbytes: int, repetitions: int) -> None:
        import loadstone as ls

        self.ls, self.cuda = ls, Cuda()
        self.folder, self.nbytes, self.repetitions = folder, nbytes, repetitions
        self.lines: list[dict[str, Any]] = []

    def whole_on_gpu(self) -> Any:
        return self.ls.Sharding(self.ls.Mesh({"x": 1}, devices=["cuda:0"]), (None, None))

    def columns_on_gpu(self, which: list[int] | None = None) -> Any:
        mesh = self.ls.Mesh({"x": 8}, devices=[f"cuda:0.{k}" for k in range(8)])
        return self.ls.Sharding(mesh, (None, "x"))

    def checker(self, data: DataSet, sharding: Any) -> Callable[[str, Any], None]:
        """Compares every byte of our placements once each time."""

        def check(name: str, result: Any) -> None:
            if not name.startswith("loadstone"):
                return
            for shard, found in zip(result.shards, placed_bytes(self.cuda, result), strict=True):
                expected = np.ascontiguousarray(data.array[shard.index]).view(np.uint8).reshape(-1)
                if not np.array_equal(found, expected):
                    raise RuntimeError(f"{name}: {shard} differs from the files")

        return check

    def warm_rows(self) -> None:
        for name, options in {
            "npy, C order": {},
            "npy, Fortran order": {"order": "F"},
            "npy, big-endian": {"dtype": ">f4"},
        }.items():
            data = DataSet(self.folder, self.nbytes, 4096, **options)
            data.warm()
            catalog = self.ls.open(data.folder)
            sharding = self.whole_on_gpu()
            bare = PinnedCopy(self.cuda, data.nbytes)
            row = Row(f"warm, 16 shards, {name}", data.nbytes, ">= 0.95" if not options else ">= 0.9 of C order")
            contenders: dict[str, Contender] = {
                "pinned copy": bare,
                "loadstone": lambda c=catalog, s=sharding: self.ls.load(c, s),
            }
            if not options:
                manifest = self.ls.digest(catalog)
                contenders["loadstone verify+manifest"] = lambda c=catalog, s=sharding, m=manifest: self.ls.load(
                    c, s, verify=True, manifest=m)
                contenders["loadstone verify"] = lambda c=catalog, s=sharding: self.ls.load(c, s, verify=True)
            row.time(contenders, self.repetitions, check=self.checker(data, sharding))
            self.lines.append(row.report("loadstone", "pinned copy"))
            if not options:
                for what, goal in (("loadstone verify+manifest", "<= 1.5 % more"), ("loadstone verify", "<= 3 % more")):
                    row.goal = goal
                    self.lines.append(row.report(what, "loadstone"))
            bare.close()
            data.close()

    def cold_row(self) -> None:
        data = DataSet(self.folder, self.nbytes, 4096)
        catalog = self.ls.open(data.folder)
        sharding = self.whole_on_gpu()
        row = Row("cold, 16 shards", data.nbytes, ">= 0.98")
        row.time({"O_DIRECT": lambda: read_direct(data.files), "loadstone": lambda: self.ls.load(catalog, sharding)},
                 self.repetitions, before=lambda: drop_caches(data.files), check=self.checker(data, sharding),
                 warm_up=False)
        self.lines.append(row.report("loadstone", "O_DIRECT"))
        data.close()

    def column_rows(self) -> None:
        for run_bytes in (64, 1024, 16384):
            data = DataSet(self.folder, self.nbytes, run_bytes * 8 // 4)
            data.warm()
            catalog = self.ls.open(data.folder)
            sharding = self.columns_on_gpu()
            bare = PinnedCopy(self.cuda, data.nbytes)
            row = Row(f"8 column shards, runs of {run_bytes} B", data.nbytes, ">= 0.8 of warm")
            row.time({"pinned copy": bare, "loadstone": lambda c=catalog, s=sharding: self.ls.load(c, s)},
                     self.repetitions, check=self.checker(data, sharding))
            self.lines.append(row.report("loadstone", "pinned copy"))
            bare.close()
            data.close()

    def tmpfs_row(self, nbytes: int) -> None:
        mount = pathlib.Path(tempfile.mkdtemp(prefix="gpu-load-tmpfs-"))
        size = nbytes + (1 << 30)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mount)], check=False).returncode:
            print("skipped: tmpfs row, mount was refused")
            return
        try:
            data = DataSet(mount, nbytes, 4096)
            catalog = self.ls.open(data.folder)
            sharding = self.whole_on_gpu()
            bare = PinnedCopy(self.cuda, data.nbytes)
            row = Row(f"tmpfs, {nbytes / GB:.0f} GB", data.nbytes, ">= 0.9")
            row.time({"pinned copy": bare, "loadstone": lambda: self.ls.load(catalog, sharding)}, self.repetitions)
            self.lines.append(row.report("loadstone", "pinned copy"))
            bare.close()
            data.close()
        finally:
            subprocess.run(["umount", str(mount)], check=False)
            mount.rmdir()


def peer_contenders(data: DataSet, folder: pathlib.Path) -> dict[str, Contender]:
    """What people do today, each to one array on the GPU; what is not installed is named and left out."""
    out: dict[str, Contender] = {}

    def add(name: str, make: Callable[[], Contender]) -> None:
        try:
            out[name] = make()
        except ImportError as error:
            print(f"skipped: {name}: {error}")

    def cupy_set() -> Contender:
        import cupy

        def run() -> Any:
            target = cupy.empty(data.shape, np.float32)
            at = 0
            for path in data.files:
                part = np.load(path, mmap_mode="r")
                target[at : at + len(part)].set(part)
                at += len(part)
            cupy.cuda.Device().synchronize()
            return target

        return run

    def cupy_concatenate() -> Contender:
        import cupy

        def run() -> Any:
            target = cupy.asarray(np.concatenate([np.load(path) for path in data.files]))
            cupy.cuda.Device().synchronize()
            return target

        return run

    def torch_copy() -> Contender:
        import torch

        def run() -> Any:
            target = torch.cat([torch.from_numpy(np.load(path)).to("cuda") for path in data.files])
            torch.cuda.synchronize()
            return target

        return run

    def safetensors_cuda() -> Contender:
        import torch
        from safetensors.numpy import save_file
        from safetensors.torch import load_file

        paths = []
        for number, path in enumerate(data.files):
            paths.append(folder / f"peer_{number:04d}.safetensors")
            save_file({"x": np.load(path)}, paths[-1])

        def run() -> Any:
            target = torch.cat([load_file(path, device="cuda")["x"] for path in paths])
            torch.cuda.synchronize()
            return target

        return run

    def jax_callback() -> Contender:
        import jax

        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])

        def run() -> Any:
            def read(index: Any) -> Any:
                return np.concatenate([np.load(path, mmap_mode="r") for path in data.files])[index]

            return jax.make_array_from_callback(data.shape, sharding, read).block_until_ready()

        return run

    def tensorstore_jax() -> Contender:
        import jax
        import tensorstore

        store = tensorstore.open(
            {"driver": "zarr", "kvstore": {"driver": "file", "path": str(folder / "peer.zarr")}},
            dtype=tensorstore.float32, shape=data.shape, chunk_layout=tensorstore.ChunkLayout(
                chunk_shape=(max(1, data.shape[0] // 64), data.shape[1])), create=True, delete_existing=True).result()
        store[...].write(data.array).result()

        def run() -> Any:
            return jax.device_put(store.read().result()).block_until_ready()

        return run

    add("memmap -> cupy.set", cupy_set)
    add("np.concatenate -> cupy", cupy_concatenate)
    add("np.load -> torch", torch_copy)
    add("safetensors load_file(cuda)", safetensors_cuda)
    add("jax.make_array_from_callback", jax_callback)
    add("tensorstore -> jax", tensorstore_jax)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=float, default=8e9, help="of a data set")
    parser.add_argument("--tmpfs-bytes", type=float, default=16e9)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    parser.add_argument("--rows", default="warm,columns,cold,tmpfs")
    parser.add_argument("--peers", action="store_true", help="the warm row beside other libraries, and nothing else")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = Rows(options.folder, int(options.bytes), options.repetitions)
    print(json.dumps(machine()))
    if options.peers:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        data = DataSet(options.folder, int(options.bytes), 4096)
        data.warm()
        catalog = rows.ls.open(data.folder)
        sharding = rows.whole_on_gpu()
        row = Row("warm, 16 shards, beside peers", data.nbytes, ">= 5 x the best peer")
        contenders = {"loadstone": lambda: rows.ls.load(catalog, sharding), **peer_contenders(data, data.folder.parent)}
        row.time(contenders, options.repetitions, check=rows.checker(data, sharding))
        peers = [name for name in row.seconds if name != "loadstone"]
        best = max(peers, key=row.rate)
        for peer in sorted(peers, key=row.rate):
            print(f"  {peer:<32} {row.rate(peer):7.2f} GB/s")
        rows.lines.append(row.report("loadstone", best))
        data.close()
    else:
        wanted = options.rows.split(",")
        if "warm" in wanted:
            rows.warm_rows()
        if "columns" in wanted:
            rows.column_rows()
        if "cold" in wanted:
            rows.cold_row()
        if "tmpfs" in wanted:
            rows.tmpfs_row(int(options.tmpfs_bytes))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": machine(), "rows": rows.lines}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
