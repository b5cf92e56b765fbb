#!/usr/bin/env bash
# The main job from beginning to end. `./dev demo` runs this with loadstone and its Python package on the PATH.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/loadstone-demo-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

say() { printf '\n--- %s\n' "$*"; }
run() {
  printf '$ %s\n' "$*"
  "$@"
}

say 'Nine files of different sizes, 197 MB together: the shards of one array'
run loadstone write shards --shape 48000,1024 --dtype float32 --shards 9 --uneven --seed 1 --threads 2

say 'What is in there? Only the headers are read'
run loadstone inspect shards

say 'Who would get what on a mesh of 2 x 4 devices? Nothing is read yet'
run loadstone plan shards --expect-files 9 --mesh x=2,y=4 --spec x,y --explain

say 'Load it over eight CPU devices and prove every byte'
run loadstone load shards --expect-files 9 --mesh x=2,y=4 --spec x,y --verify

say 'A manifest binds the array, not its files: here it proves another sharding of it'
run loadstone digest shards --expect-files 9 --output manifest.json
run loadstone verify shards --expect-files 9 --manifest manifest.json --mesh x=2,y=4 --spec y,x

say 'The same directory as a jax.Array over eight host devices'
run python "$here/jax_load.py" shards

say 'The word embeddings of a real model'
run python "$here/real_weights.py"

say 'All good'
