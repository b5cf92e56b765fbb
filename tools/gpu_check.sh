#!/usr/bin/env bash
# Builds, tests and measures on a machine with NVIDIA GPUs: tools/gpu_check.sh [build|test|sanitize|bench|peers …]
# (no argument: all of them). Everything goes to build/gpu; results as JSON to $OUT, or bench/results. What the machine
# lacks is skipped by name. Needs a C++20 compiler, CMake, Ninja, nvcc and a Python with nanobind and scikit-build-core.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 4

readonly BUILD=build/gpu
readonly SITE=$PWD/$BUILD/site
readonly RESULTS=${OUT:-bench/results}
PYTHON=${PYTHON:-$(command -v python3)}
PATH=$PATH:/usr/local/cuda/bin
# A compiler of some other prefix may link its own C++ library into ours, which Python's other modules do not share.
if [[ -z ${CXX:-} && -x /usr/bin/g++ ]]; then export CXX=/usr/bin/g++; fi
failed=()
GPUS=0
mkdir -p "$BUILD" "$RESULTS"

# stage NAME COMMAND…: notes a failure and goes on.
stage() {
  local name=$1 start=$SECONDS
  shift
  printf '== %s\n' "$name"
  if "$@"; then
    printf -- '-- %s: ok (%d s)\n' "$name" $((SECONDS - start))
  else
    printf -- '-- %s: FAILED (%d s)\n' "$name" $((SECONDS - start))
    failed+=("$name")
  fi
}

skip() {
  printf -- '-- skipped: %s\n' "$*"
}

show_machine() {
  printf 'system: %s, %s cores, glibc %s\n' "$(uname -sr)" "$(nproc)" "$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)"
  if ! nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader; then
    printf 'no NVIDIA GPU answers here\n' >&2
    exit 4
  fi
  GPUS=$(nvidia-smi --list-gpus | wc -l)
  printf 'GPUs: %s; commit %s\n' "$GPUS" "${LOADSTONE_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}"
}

quietly() {
  local log=$BUILD/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log"
    return 1
  fi
}

build_programs() {
  quietly configure cmake -S . -B "$BUILD/cpp" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOADSTONE_TESTS=ON \
    -DLOADSTONE_CUDA=ON || return
  quietly programs ninja -C "$BUILD/cpp" loadstone_cli loadstone_base_test loadstone_exec_test loadstone_verify_test \
    loadstone_array_test loadstone_handover_test loadstone_gpu_digest
}

build_package() {
  rm -rf "$SITE"
  quietly package "$PYTHON" -m pip install --no-index --no-deps --no-build-isolation --target "$SITE" \
    -C build-dir="$BUILD/py" -C cmake.define.LOADSTONE_CUDA=ON . || return
  "$SITE/bin/loadstone" doctor
}

build() {
  build_package & local package=$!
  build_programs
  local programs=$?
  wait "$package" && ((programs == 0))
}

test_programs() {
  ctest --test-dir "$BUILD/cpp" -R 'Gpu' --output-on-failure --no-tests=error -j 4
}

test_python() {
  PYTHONPATH=$SITE "$PYTHON" -m pytest tests/gpu -q -rs -p no:cacheprovider
}

sanitize() {
  local tool
  tool=$(command -v compute-sanitizer) || { skip "compute-sanitizer is not installed"; return 0; }
  if ! "$tool" --tool memcheck --error-exitcode 99 "$BUILD/cpp/loadstone_verify_test" \
    --gtest_filter='Gpu*Small*' >"$BUILD/memcheck.log" 2>&1; then
    if grep -q 'Device not supported' "$BUILD/memcheck.log"; then
      skip "compute-sanitizer does not run on this machine: Device not supported"
      return 0
    fi
    tail -n 40 "$BUILD/memcheck.log"
    return 1
  fi
  tail -n 3 "$BUILD/memcheck.log"
  "$tool" --tool memcheck --error-exitcode 99 "$BUILD/cpp/loadstone_exec_test" --gtest_filter='Gpu*Small*' \
    >"$BUILD/memcheck-exec.log" 2>&1 || { tail -n 40 "$BUILD/memcheck-exec.log"; return 1; }
  tail -n 3 "$BUILD/memcheck-exec.log"
}

bench() {
  "$BUILD/cpp/tests/loadstone_gpu_digest" | tee "$RESULTS/gpu_digest.jsonl"
  PYTHONPATH=$SITE "$PYTHON" bench/gpu_load.py --json "$RESULTS/gpu_load.json" "$@"
}

peers() {
  PYTHONPATH=$SITE "$PYTHON" bench/gpu_load.py --peers --repetitions 3 --json "$RESULTS/gpu_peers.json"
}

show_machine
(($#)) || set -- build test sanitize bench peers
for what in "$@"; do
  case $what in
    build) stage build build ;;
    test)
      stage 'C++ tests' test_programs
      stage 'Python tests' test_python
      ;;
    sanitize) stage memcheck sanitize ;;
    bench) stage benchmark bench ;;
    peers) stage peers peers ;;
    *)
      printf 'usage: tools/gpu_check.sh [build|test|sanitize|bench|peers …]\n' >&2
      exit 2
      ;;
  esac
done
if ((${#failed[@]})); then
  printf 'FAILED: %s\n' "${failed[*]}"
  exit 1
fi
printf 'All good.\n'
