#!/usr/bin/env python3
"""Runs the fuzzers of a build: `run.py [BUILD_DIR] [--seconds S | --runs N] [--cases DIR] [NAME…]`.

Each starts from the files in seeds/NAME, from what earlier runs kept in BUILD_DIR/corpus/NAME, and from files of DIR (the
unpacked tests/cases/inputs.tar.gz) of its kind. Exit 1 when one finds something; the input that did it is left in
BUILD_DIR/found-NAME-….
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASES = {"npy": "*.npy", "sidecar": "shard_meta.json", "manifest": "*M*.json", "list": "*.txt", "safetensors": "*.safetensors"}


def corpus_of(name: str, build: pathlib.Path, cases: pathlib.Path | None) -> pathlib.Path:
    corpus = build / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = HERE / "seeds" / name
    for file in seeds.iterdir() if seeds.is_dir() else ():
        shutil.copy(file, corpus / f"seed-{file.name}")
    if cases is not None and name in CASES:
        for i, file in enumerate(sorted(cases.rglob(CASES[name]))):
            try:
                if file.is_file() and file.stat().st_size <= 4096:
                    shutil.copyfile(file, corpus / f"case-{i}")
            except OSError:
                pass  # a case without permission, or one of a name that cannot be opened
    return corpus


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/fuzz", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--cases", type=pathlib.Path)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    fuzzers = sorted(p for p in (build / "tests/fuzz").glob("loadstone_fuzz_*") if p.is_file())
    failed, total = [], 0
    for fuzzer in fuzzers:
        name = fuzzer.name.removeprefix("loadstone_fuzz_")
        if arguments.names and name not in arguments.names:
            continue
        corpus = corpus_of(name, build, arguments.cases)
        bound = [f"-runs={arguments.runs}"] if arguments.runs else [f"-max_total_time={arguments.seconds}"]
        command = [fuzzer, *bound, "-timeout=10", "-rss_limit_mb=1024", "-max_len=4096", "-print_final_stats=1"]
        done = subprocess.run(
            [*command, f"-artifact_prefix={build}/found-{name}-", corpus], capture_output=True, text=True, check=False
        )
        executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        count = int(executed.group(1)) if executed else 0
        total += count
        print(f"{name}: {count} executions, {'nothing found' if done.returncode == 0 else 'FAILED'}", flush=True)
        if done.returncode != 0:
            failed.append(name)
            print(done.stderr[-6000:])
    print(f"fuzz: {total} executions, {len(failed)} of {len(fuzzers)} fuzzers found something")
    return 1 if failed or not fuzzers else 0


if __name__ == "__main__":
    sys.exit(main())
