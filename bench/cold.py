#!/usr/bin/env python3
"""The main job from a cold disk: no page of the files is in the cache, proven before each run.

The ceiling is a bare O_DIRECT read of the same blocks into a buffer a thread, with the number of threads that this
disk likes best. Disks of virtual machines answer ±30 % from run to run; only pairs of neighbours are compared.
"""

import os
import sys
from typing import Any

import numpy as np
from support import Ceilings, DataSet, Row, arguments, check_whole, publish

import loadstone as ls


def main() -> int:
    options = arguments(__doc__)
    threads = len(os.sched_getaffinity(0))
    ceilings = Ceilings()
    data = DataSet(options.folder, (int(options.bytes) // 16384 // 8 * 8, 4096))
    try:
        catalog = ls.open(data.folder)
        buffered = np.ones(data.nbytes, np.uint8)
        row = Row("cold, fresh memory", data.nbytes)
        direct: list[int] = []

        def load(**more: Any) -> Any:
            placement = ls.load(catalog, **more)
            direct.append(placement.stats["files_direct"])
            return placement

        row.time(
            {
                f"O_DIRECT, {threads} threads": lambda: ceilings.read(data, 0, threads, direct=True),
                "ls.load": load,
                "O_DIRECT, 8 threads": lambda: ceilings.read(data, 0, 8, direct=True),
                "ls.load, verify='source'": lambda: load(verify="source"),
                "ls.load, verify=True": lambda: load(verify=True),
                f"pread, {threads} threads, touched memory": lambda: ceilings.read(data, buffered.ctypes.data, threads),
            },
            options.rounds, before=lambda: data.drop(ceilings), check=check_whole(data))
        row.notes["files_read_direct"] = sorted(set(direct))
        row.against("ls.load", f"O_DIRECT, {threads} threads", 0.95)
        for what, limit in (("verify='source'", 1.03), ("verify=True", 1.08)):
            median, low, high = row.ratio("ls.load", f"ls.load, {what}")
            row.goal(f"time with {what} over time without", median, limit, at_most=True, unit=" x", low=low, high=high)
    finally:
        data.close()
    return publish("cold", [row], options)


if __name__ == "__main__":
    sys.exit(main())
