"""Loads from Python into GPUs, on the stand-in driver (tests/fakes/cuda_driver.cc), in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = [ROOT / f"build/{preset}/tests/fake_cuda" for preset in ("dev", "release")]
FAKE = next((folder for folder in BUILT if (folder / "libcuda.so.1").exists()), None)
pytestmark = pytest.mark.skipif(FAKE is None, reason="the stand-in libcuda.so.1 is not built (cmake --build --preset dev)")

START = """
import sys
import numpy as np
import loadstone as ls
folder = sys.argv[1]
expected = np.concatenate([np.load(f"{folder}/shard_{i}.npy") for i in range(4)])
def sharding(devices, spec):
    return ls.Sharding(ls.Mesh({"x": len(devices)}, devices=devices), spec)
rows = sharding(["cuda:0", "cuda:1", "cpu:0"], ("x", None))
columns = sharding([f"cuda:0.{k}" for k in range(9)], (None, "x"))
ds = ls.open(folder)
"""


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(1)
    for number, rows in enumerate((70, 0, 130, 40)):
        part = rng.integers(0, 2**32, (rows, 27), np.uint32).view(np.float32)
        np.save(folder / f"shard_{number}.npy", np.asfortranarray(part) if number == 2 else part)
    return folder


def run(shards: Path, script: str, options: str = "devices=2") -> str:
    env = os.environ | {"LD_LIBRARY_PATH": str(FAKE), "LOADSTONE_FAKE_CUDA": options}
    done = subprocess.run(
        [sys.executable, "-c", START + script, shards], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# covers: loading R7, R14
@pytest.mark.parametrize("options", ["devices=2", "devices=2,delay_us=200", "devices=2,refuse_module=1"])
def test_what_is_loaded_comes_back(shards: Path, options: str) -> None:
    run(
        shards,
        """
for wanted in (rows, columns):
    placed = ls.load(ds, wanted, verify=True)
    assert placed.numpy().tobytes() == expected.tobytes()
""",
        options,
    )


# covers: loading E1, E11
def test_a_failed_load_is_an_error_of_python_and_the_next_one_works(shards: Path) -> None:
    words = run(
        shards,
        """
try:
    ls.load(ds, rows)
except ls.ResourceError as error:
    print(error)
assert ls.load(ds, rows, verify=True).numpy().tobytes() == expected.tobytes()
""",
        "devices=2,fail=cuMemAllocFromPoolAsync:2",
    )
    assert "cuda:1" in words and "CUDA_ERROR_OUT_OF_MEMORY (2)" in words


# covers: loading E11
def test_memory_of_dropped_placements_is_free_again(shards: Path) -> None:
    run(
        shards,
        """
for _ in range(20):  # of 26 kB each
    ls.load(ds, columns)
""",
        "memory=100000",
    )
