#!/usr/bin/env python3
"""What proof costs: a warm load with --verify=source and with --verify beside the same load without, and the placement
digest of memory on one core beside a bare read of the same memory. (Cold loads: cold.py. GPUs: gpu_digest.)"""

import ctypes
import json
import os
import subprocess
import sys

import numpy as np
from support import ROOT, Ceilings, DataSet, Row, arguments, check_whole, publish

import loadstone as ls


def load_row(ceilings: Ceilings, data: DataSet, rounds: int) -> Row:
    catalog = ls.open(data.folder)
    out = np.ones(data.array.shape, np.float32)
    row = Row("warm load with proof, destination touched", data.nbytes)
    row.time({"ls.load": lambda: ls.load(catalog, out=out),
              "ls.load, verify='source'": lambda: ls.load(catalog, out=out, verify="source"),
              "ls.load, verify=True": lambda: ls.load(catalog, out=out, verify=True)}, rounds, check=check_whole(data))
    for what, limit in (("verify='source'", 1.15), ("verify=True", 1.80)):
        median, low, high = row.ratio("ls.load", f"ls.load, {what}")
        row.goal(f"time with {what} over time without", median, limit, at_most=True, unit=" x", low=low, high=high)
    return row


def digest_row(ceilings: Ceilings, rounds: int) -> Row:
    program = ROOT / "build/release/bench/loadstone_pd61_bench"
    row = Row("PD61 digest on one core")
    memory = np.ones(256 << 20, np.uint8)
    row.nbytes = memory.nbytes

    def bare() -> None:
        ceilings.lib.read_memory(memory.ctypes.data_as(ctypes.c_void_p),
                                 ctypes.c_int64(memory.nbytes), 1)

    row.time({"bare read of 256 MiB, 1 thread": bare}, rounds)
    command = [str(program), "--benchmark_filter=whole", "--benchmark_format=json", "--benchmark_min_time=0.3",
               f"--benchmark_repetitions={rounds}"]
    output = json.loads(subprocess.run(command, check=True, text=True, capture_output=True).stdout)
    rates = {entry["run_name"]: entry["bytes_per_second"] / 1e9 for entry in output["benchmarks"]
             if entry.get("aggregate_name") == "median"}
    row.notes["gb_per_s"] = {name: round(rate, 2) for name, rate in rates.items()}
    for name, rate in rates.items():
        lanes = int(name.rsplit(":", 1)[1])
        row.goal(f"digest {name}", rate, 20 if lanes == 1 else 10, unit=" GB/s")
    return row


def main() -> int:
    options = arguments(__doc__)
    ceilings = Ceilings()
    rows = []
    if options.only in "load":
        data = DataSet(options.folder, (int(options.bytes) // 16384 // 8 * 8, 4096))
        try:
            data.warm(ceilings)
            rows.append(load_row(ceilings, data, options.rounds))
        finally:
            data.close()
    if options.only in "digest":
        rows.append(digest_row(ceilings, options.rounds))
    return publish("verification", rows, options, threads=len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    sys.exit(main())
