#!/usr/bin/env bash
# Runs the questions of bench/ that were named, or all that need no GPU. `./dev bench [NAME…] [-- OPTION…]` calls it:
# bash tools/bench.sh BUILD_FOLDER NAME… [-- OPTION…]. Tables come last and again from bench/results/*.json.
set -euo pipefail

readonly QUESTIONS=(warm cold columns discovery planning verification command)
build=$1
shift
names=()
while (($#)) && [[ $1 != -- ]]; do names+=("$1") && shift; done
(($# == 0)) || shift
((${#names[@]})) || names=("${QUESTIONS[@]}")

for name in "${names[@]}"; do
  if [[ ! -f bench/$name.py ]]; then
    printf 'no bench/%s.py; there are: %s\n' "$name" "${QUESTIONS[*]}" >&2
    exit 2
  fi
done

export LOADSTONE_CEILINGS=$PWD/$build/bench/libceilings.so
for name in "${names[@]}"; do
  python "bench/$name.py" "$@" 2>"$build/bench/$name.log" >/dev/null || { cat "$build/bench/$name.log" >&2; exit 1; }
done
printf '%s\n' "${names[@]/#/bench/results/}" | sed 's/$/.json/' | xargs python bench/support.py
