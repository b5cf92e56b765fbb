"""What the benchmarks share: data sets, proof of the cache state, interleaved runs, results as JSON and as a table.

A question is one file beside this one. It makes `Row`s: contenders that run in turn, so that all meet the same
machine; medians of at least five rounds after one that is not counted. Every result is compared with the bytes that
were written, after the clock has stopped. Rates are needed bytes over seconds, GB = 1e9 bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

GB = 1e9
ROOT = pathlib.Path(__file__).resolve().parent.parent
Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]


class Ceilings:
    """bench/ceilings.cc: bare reads and the page cache. Calls drop the GIL."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(os.environ.get("LOADSTONE_CEILINGS", str(ROOT / "build/release/bench/libceilings.so")))
        self.lib.fresh_memory.restype = ctypes.c_void_p
        self.lib.resident_pages.restype = ctypes.c_int64

    def read(self, data: DataSet, to: int, threads: int = 2, window: int = 4 << 20, direct: bool = False) -> None:
        count = len(data.files)
        paths = (ctypes.c_char_p * count)(*[os.fsencode(path) for path in data.files])
        offsets = (ctypes.c_int64 * count)(*data.offsets)
        sizes = (ctypes.c_int64 * count)(*data.payloads)
        if self.lib.bare_read(paths, offsets, sizes, count, ctypes.c_void_p(to), threads, ctypes.c_int64(window), int(direct)):
            raise RuntimeError("the bare read failed")

    @contextmanager
    def fresh(self, nbytes: int) -> Iterator[int]:
        address = self.lib.fresh_memory(ctypes.c_int64(nbytes))
        if not address:
            raise MemoryError
        try:
            yield address
        finally:
            self.lib.free_memory(ctypes.c_void_p(address), ctypes.c_int64(nbytes))

    def touch(self, nbytes: int) -> None:
        self.lib.touch(ctypes.c_int64(nbytes), os.cpu_count() or 1)

    def resident_share(self, files: Sequence[pathlib.Path]) -> float:
        pages = resident = 0
        for path in files:
            of_file = ctypes.c_int64()
            found = self.lib.resident_pages(os.fsencode(path), ctypes.byref(of_file))
            if found < 0:
                raise OSError(f"mincore says nothing of {path}")
            resident += found
            pages += of_file.value
        return resident / max(pages, 1)


class DataSet:
    """Uneven .npy shards of one array, stacked along axis 0, and the array they hold."""

    def __init__(self, folder: pathlib.Path, shape: tuple[int, ...], shards: int = 16, *, dtype: str = "<f4",
                 order: str = "C", seed: int = 5) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="loadstone-bench-", dir=folder))
        rng = np.random.default_rng(seed)
        count = int(np.prod(shape))
        block = rng.integers(0, 2**32, (1 << 22) + 1, np.uint32)  # odd length: rows are not alike
        self.array = np.resize(block, count).reshape(shape).view(np.float32)
        self.nbytes = self.array.nbytes
        self.files: list[pathlib.Path] = []
        self.payloads: list[int] = []
        self.offsets: list[int] = []
        cuts = np.sort(rng.choice(np.arange(1, shape[0]), shards - 1, replace=False)) if shards > 1 else []
        at = 0
        for number, end in enumerate([*map(int, cuts), shape[0]]):
            part = self.array[at:end]
            path = self.folder / f"shard_{number:04d}.npy"
            np.save(path, np.asarray(part.astype(dtype) if dtype != "<f4" else part, order=order))  # type: ignore[call-overload]
            self.files.append(path)
            self.payloads.append(part.nbytes)
            self.offsets.append(path.stat().st_size - part.nbytes)
            at = end
        os.sync()

    def warm(self, ceilings: Ceilings) -> float:
        """Brings all pages into the cache. Returns the share that is there."""
        for path in self.files:
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass
        share = ceilings.resident_share(self.files)
        if share < 0.999:
            raise RuntimeError(f"only {share:.1%} of the pages are in the cache")
        return share

    def drop(self, ceilings: Ceilings) -> None:
        """Takes all pages out of the cache and proves it."""
        for path in self.files:
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        if os.geteuid() == 0 and os.access("/proc/sys/vm/drop_caches", os.W_OK):
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        share = ceilings.resident_share(self.files)
        if share > 0.001:
            raise RuntimeError(f"{share:.1%} of the pages are still in the cache")

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def same_bytes(found: Array, expected: Array) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if found.flags.c_contiguous and expected.flags.c_contiguous:
        # array_equal would say that NaN differs from itself, and needs memory of its own.
        compare = ctypes.CDLL(None).memcmp
        return compare(ctypes.c_void_p(found.ctypes.data), ctypes.c_void_p(expected.ctypes.data), ctypes.c_size_t(found.nbytes)) == 0
    width = f"u{found.dtype.itemsize}"
    return bool(np.array_equal(found.view(width), expected.view(width)))


def check_whole(data: DataSet) -> Callable[[str, Any], None]:
    """Compares whatever a contender returned, in any of the libraries' types, with the array."""

    def check(name: str, result: Any) -> None:
        if result is None:
            return
        if hasattr(result, "shards"):
            parts = [(np.asarray(shard.data), shard.index) for shard in result.shards]
        elif hasattr(result, "addressable_shards"):
            parts = [(np.asarray(shard.data), shard.index) for shard in result.addressable_shards]
        else:
            parts = [(np.asarray(result), ())]
        for part, index in parts:
            if not same_bytes(part, data.array[index]):
                raise RuntimeError(f"{name}: bytes differ from those that were written")

    return check


class Row:
    """One comparison: contenders timed in turn."""

    def __init__(self, name: str, nbytes: int = 0) -> None:
        self.name, self.nbytes = name, nbytes
        self.seconds: dict[str, list[float]] = {}
        self.lines: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {}

    def time(self, contenders: dict[str, Callable[[], Any]], rounds: int, *, before: Callable[[], None] | None = None,
             check: Callable[[str, Any], None] | None = None) -> Row:
        for number in range(rounds + 1):
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
                if number > 0:
                    self.seconds.setdefault(name, []).append(seconds)
                elif name not in self.seconds:
                    self.notes.setdefault("first_seconds", {})[name] = round(seconds, 4)
        return self

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def rate(self, name: str) -> float:
        return self.nbytes / self.median(name) / GB

    def ratio(self, ours: str, other: str) -> tuple[float, float, float]:
        """How many times faster ours is, pair by pair: median, least, most."""
        pairs = [b / a for a, b in zip(self.seconds[ours], self.seconds[other], strict=True)]
        return statistics.median(pairs), min(pairs), max(pairs)

    def goal(self, what: str, value: float, limit: float, *, at_most: bool = False, unit: str = "", low: float | None = None,
             high: float | None = None) -> None:
        """Notes a figure and whether it meets its goal."""
        good = value <= limit if at_most else value >= limit
        self.lines.append({"what": what, "value": round(value, 4), "goal": f"{'<=' if at_most else '>='} {limit:g}{unit}",
                           "unit": unit, "met": good, "low": low and round(low, 4), "high": high and round(high, 4)})

    def against(self, ours: str, other: str, limit: float) -> None:
        median, low, high = self.ratio(ours, other)
        self.goal(f"{ours} against {other}", median, limit, low=low, high=high, unit=" x")

    def result(self) -> dict[str, Any]:
        rates = {n: {"gb_per_s": round(self.rate(n), 3)} for n in self.seconds} if self.nbytes else {n: {} for n in self.seconds}
        for name, entry in rates.items():
            entry["median_s"] = round(self.median(name), 6)
            entry["seconds"] = [round(s, 6) for s in self.seconds[name]]
        return {"row": self.name, "bytes": self.nbytes, "contenders": rates, "goals": self.lines, **self.notes}


def machine() -> dict[str, Any]:
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = next((line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal")), "0")
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], text=True, capture_output=True, check=False)
    changed = subprocess.run(["git", "-C", str(ROOT), "status", "--porcelain", "src", "python"], text=True,
                             capture_output=True, check=False)
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_gb": round(int(memory) * 1024 / GB, 1),
            "system": f"{platform.system()} {platform.release()}", "python": platform.python_version(),
            "commit": commit.stdout.strip() + ("+" if changed.stdout.strip() else ""), "date": time.strftime("%Y-%m-%d")}


def versions(*names: str) -> dict[str, str]:
    import importlib.metadata

    return {name: importlib.metadata.version(name) for name in names}


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()), help="where data goes")
    parser.add_argument("--bytes", type=float, default=2e9, help="size of the data set")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count, after one that does not")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results", help="where the JSON goes")
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    return parser.parse_args()


def publish(name: str, rows: Sequence[Row], options: argparse.Namespace, **more: Any) -> int:
    """Writes bench/results/NAME.json and prints a table."""
    report = {"question": name, "machine": machine(), **more, "rows": [row.result() for row in rows]}
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    return 0


def table(report: dict[str, Any]) -> str:
    m = report["machine"]
    out = [f"{report['question']}: {m['cpu']}, {m['cores']} cores, {m['system']}, {m['commit']}, {m['date']}"]
    for row in report["rows"]:
        out.append(f"\n{row['row']}" + (f", {row['bytes'] / GB:.2f} GB" if row["bytes"] else ""))
        for name, entry in row["contenders"].items():
            rate = f"{entry['gb_per_s']:8.2f} GB/s" if "gb_per_s" in entry else " " * 13
            spread = f"{min(entry['seconds']) * 1e3:.1f}-{max(entry['seconds']) * 1e3:.1f}"
            out.append(f"  {name:<46} {rate} {entry['median_s'] * 1e3:10.1f} ms  ({spread})")
        for line in row["goals"]:
            spread = f"  ({line['low']:.2f}-{line['high']:.2f})" if line["low"] is not None else ""
            out.append(f"  {line['what']:<58} {line['value']:9.3f}{line['unit']}  goal {line['goal']}"
                       f"  {'met' if line['met'] else 'MISSED'}{spread}")
    return "\n".join(out)


def markdown(report: dict[str, Any]) -> str:
    m = report["machine"]
    out = [f"`bench/{report['question']}.py`: {m['cpu']}, {m['cores']} cores, {m['system']}, commit {m['commit']}, {m['date']}."]
    for row in report["rows"]:
        out += ["", f"**{row['row']}**" + (f" ({row['bytes'] / GB:.2f} GB)" if row["bytes"] else ""), ""]
        if row["contenders"]:
            out += ["| contender | GB/s | median ms | from – to ms |", "|---|--:|--:|--:|"]
        for name, entry in row["contenders"].items():
            rate = f"{entry['gb_per_s']:.2f}" if "gb_per_s" in entry else "–"
            low, high = min(entry["seconds"]) * 1e3, max(entry["seconds"]) * 1e3
            out.append(f"| {name} | {rate} | {entry['median_s'] * 1e3:.1f} | {low:.1f} – {high:.1f} |")
        if row["goals"]:
            out += ["", "| figure | found | pairs from – to | goal | |", "|---|--:|--:|--:|---|"]
        for line in row["goals"]:
            spread = f"{line['low']:.2f} – {line['high']:.2f}" if line["low"] is not None else ""
            out.append(f"| {line['what']} | {line['value']:.2f}{line['unit']} | {spread} | {line['goal']} | "
                       f"{'met' if line['met'] else '**missed**'} |")
    return "\n".join(out)


def write_docs(page: pathlib.Path, results: pathlib.Path) -> None:
    """Puts the results into the page, each between `<!-- NAME -->` and `<!-- end -->`."""
    text = page.read_text()
    for path in sorted(results.glob("*.json")):
        report = json.loads(path.read_text())
        mark = f"<!-- {path.stem} -->\n"
        if mark in text and "question" in report:
            before, after = text.split(mark, 1)
            text = before + mark + markdown(report) + "\n<!-- end -->" + after.split("<!-- end -->", 1)[1]
    page.write_text(text)


def table_main() -> None:
    if sys.argv[1:] == ["--docs"]:
        write_docs(ROOT / "docs/performance.md", ROOT / "bench/results")
        return
    for path in sys.argv[1:]:
        print(table(json.loads(pathlib.Path(path).read_text())) + "\n")


if __name__ == "__main__":
    table_main()
