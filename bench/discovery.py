#!/usr/bin/env python3
"""Finding 100,000 .npy shards: ls.open beside np.load(mmap_mode="r") in a loop, and beside opening, reading 128 bytes
and closing each file. Memory is what the process grows by, less the names."""

import ctypes
import os
import pathlib
import shutil
import sys
import tempfile
import threading

import numpy as np
from support import Row, arguments, publish, versions

import loadstone as ls

FILES = 100_000
PART = 5  # the loop takes every fifth file: all of them would take most of the run


def resident_bytes() -> int:
    """Memory in use: what was freed goes back to the system first."""
    ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    options = arguments(__doc__)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="loadstone-bench-", dir=options.folder))
    try:
        np.save(folder / "first.npy", np.zeros((2, 4), np.float32))
        content = (folder / "first.npy").read_bytes()
        (folder / "first.npy").unlink()
        names = [f"shard_{number:06d}.npy" for number in range(FILES)]
        for name in names:
            (folder / name).write_bytes(content)

        def bare() -> None:
            halves = [names[::2], names[1::2]]

            def work(part: list[str]) -> None:
                for name in part:
                    descriptor = os.open(folder / name, os.O_RDONLY)
                    os.pread(descriptor, 128, 0)
                    os.close(descriptor)

            crew = [threading.Thread(target=work, args=(part,)) for part in halves]
            for thread in crew:
                thread.start()
            for thread in crew:
                thread.join()

        def loop() -> int:
            return sum(np.load(folder / name, mmap_mode="r").shape[0] for name in names[:: PART])

        ls.open(folder)  # code and allocator are warm before memory is measured
        before = resident_bytes()
        kept = ls.open(folder)
        grown = resident_bytes() - before
        rows = kept.arrays[0].shape[0]
        if rows != 2 * FILES:
            raise RuntimeError(f"found {rows} rows")
        row = Row(f"discovery of {FILES:,} .npy files, cached")
        peer = f"np.load(mmap_mode='r') in a loop, 1 of {PART} files"
        row.time({peer: loop, "ls.open": lambda: ls.open(folder),
                  "Python open, pread, close, 2 threads": bare}, options.rounds)
        times = [PART * ratio for ratio in row.ratio("ls.open", peer)]
        row.goal(f"ls.open against {PART} times that loop", times[0], 10, low=times[1], high=times[2], unit=" x")
        own = sum(len(os.fsencode(folder / name)) for name in names)
        row.notes |= {"memory_grown": grown, "names": own}
        row.goal("memory of the catalog beyond names", (grown - own) / FILES, 64, at_most=True, unit=" B a file")
    finally:
        shutil.rmtree(folder)
    return publish("discovery", [row], options, versions=versions("numpy"))


if __name__ == "__main__":
    sys.exit(main())
