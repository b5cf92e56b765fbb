#!/usr/bin/env python3
"""The command as a process: how soon `loadstone inspect` of three files answers, beside `ls -l` and Python with NumPy;
and how much memory a load takes, as the system counts it, against what the plan says."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from support import Row, arguments, publish

LOADSTONE = pathlib.Path(sys.executable).with_name("loadstone")
SLACK = 64 << 20  # bytes: the program itself


def quiet(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def first_result(folder: pathlib.Path, rounds: int) -> Row:
    for number in range(3):
        np.save(folder / f"shard_{number}.npy", np.zeros((100, 10), np.float32))
    row = Row("first result of a small job")
    row.time({"loadstone inspect of 3 files": lambda: quiet(LOADSTONE, "inspect", folder),
              "ls -l": lambda: quiet("ls", "-l", folder),
              "python -c 'import numpy'": lambda: quiet(sys.executable, "-c", "import numpy")}, 4 * rounds)
    row.goal("loadstone inspect", row.median("loadstone inspect of 3 files") * 1e3, 30, at_most=True, unit=" ms")
    return row


def peak_of(*command: object) -> int:
    """Largest resident set of a process, page cache not counted."""
    child = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"exit {child.returncode}: {command}")
    return usage.ru_maxrss * 1024


def peak_memory(folder: pathlib.Path) -> Row:
    shards = folder / "shards"
    quiet(LOADSTONE, "write", shards, "--shape", "131072,1024", "--dtype", "float32", "--shards", 16, "--uneven", "--seed", 1)
    row = Row("peak memory of a load, 537 MB")
    for name, sharding in {"rows over 4": ["--mesh", "x=4", "--spec", "x"], "columns over 4": ["--mesh", "x=4", "--spec", "-,x"],
                           "verified": ["--mesh", "x=4", "--spec", "x", "--verify"]}.items():
        plan = json.loads(subprocess.run([str(LOADSTONE), "plan", str(shards), *[s for s in sharding if s != "--verify"], "--json"],
                                         check=True, text=True, stdout=subprocess.PIPE).stdout)
        stated = find(plan, "peak_host_bytes")
        peak = peak_of(LOADSTONE, "load", shards, *sharding)
        row.goal(f"{name}: peak beyond the {stated / 1e6:.1f} MB that the plan states", (peak - stated) / 2**20, SLACK / 2**20,
                 at_most=True, unit=" MiB")
    # Cold: direct reads need buffers of their own.
    for path in shards.glob("*.npy"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    peak = peak_of(LOADSTONE, "load", shards, "--mesh", "x=4", "--spec", "x")
    row.goal("rows over 4, cold: peak beyond it", (peak - stated) / 2**20, SLACK / 2**20, at_most=True, unit=" MiB")
    return row


def find(value: object, key: str) -> int:
    """The number under `key`, wherever it is in a JSON value."""
    if isinstance(value, dict):
        if key in value:
            return int(value[key])
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            try:
                return find(part, key)
            except KeyError:
                continue
    raise KeyError(key)


def main() -> int:
    options = arguments(__doc__)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="loadstone-bench-", dir=options.folder))
    small = folder / "small"
    small.mkdir()
    try:
        rows = [first_result(small, options.rounds), peak_memory(folder)]
    finally:
        shutil.rmtree(folder)
    return publish("command", rows, options)


if __name__ == "__main__":
    sys.exit(main())
