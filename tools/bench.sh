#!/usr/bin/env bash
# Runs the benchmark programs of a build folder, then `loadstone bench` on a data set made for it. `./dev bench` calls it.
set -euo pipefail

build=$1
folder=$(mktemp -d "${TMPDIR:-/tmp}/loadstone-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT

printf 'machine: %s, %s cores\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"

for program in "$build"/bench/*_bench; do
  if [[ ! -x $program ]]; then
    printf 'no benchmark program in %s/bench\n' "$build" >&2
    exit 1
  fi
  printf '\n== %s\n' "${program##*/}"
  "$program" --benchmark_min_time=0.2 --benchmark_counters_tabular=true 2>/dev/null
done

printf '\n== loadstone bench: 1 GB of float32 in 16 uneven .npy shards, just written, so in the page cache\n'
loadstone write "$folder/shards" --shape 250000,1000 --dtype float32 --shards 16 --uneven --seed 1 >/dev/null
loadstone bench "$folder/shards"
