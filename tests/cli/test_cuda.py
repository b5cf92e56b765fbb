"""Loads into GPUs from the command line, on the stand-in driver (tests/fakes/cuda_driver.cc)."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from loadstone_cli import ROOT, failing, good

BUILT = [ROOT / f"build/{preset}/tests/fake_cuda" for preset in ("dev", "release")]
FAKE = next((folder for folder in BUILT if (folder / "libcuda.so.1").exists()), None)
pytestmark = pytest.mark.skipif(FAKE is None, reason="the stand-in libcuda.so.1 is not built (cmake --build --preset dev)")

COLUMNS = ("--mesh", "x=8", "--devices", ",".join(f"cuda:0.{k}" for k in range(8)), "--spec", "-,x")
ROWS = ("--mesh", "x=2", "--devices", "cuda:0,cuda:1", "--spec", "x,-")
UUID = "10111213-1415-1617-1819-1a1b1c1d1e"  # then the number of the fake GPU


def fake(**options: Any) -> dict[str, str]:
    text = ",".join(f"{key}={value}" for key, value in options.items())
    return os.environ | {"LD_LIBRARY_PATH": str(FAKE), "LOADSTONE_FAKE_CUDA": text}


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "whole.bin"
    good("load", data, "--dump", path)
    return path.read_bytes()


# covers: loading R7, R14
@pytest.mark.parametrize("options", [{}, {"delay_us": 200}, {"refuse_module": 1}, {"pools": 0}, {"pinned_limit": 0}], ids=str)
@pytest.mark.parametrize("where", [COLUMNS, ROWS], ids=["columns", "rows"])
def test_loads_and_verifies(
    data: Path, whole: bytes, tmp_path: Path, where: tuple[str, ...], options: dict[str, Any]
) -> None:
    path = tmp_path / "back.bin"
    body = good("load", data, *where, "--verify", "--dump", path, "--json", env=fake(devices=2, **options)).json
    assert body["ok"] is True
    assert path.read_bytes() == whole


def test_gpus_are_found_by_uuid(data: Path) -> None:
    devices = f"cuda:GPU-{UUID}01,cuda:GPU-{UUID}00"
    text = good("load", data, "--mesh", "x=2", "--devices", devices, "--spec", "x,-", env=fake(devices=2)).out.decode()
    assert re.search(r"cuda:1 +\[0:500", text) and re.search(r"cuda:0 +\[500:1000", text)
    error = failing(4, "load", data, "--mesh", "x=1", "--devices", "cuda:GPU-77", "--spec", "-", "--json", env=fake()).error
    assert "'cuda:GPU-77' is not on this machine: cuda:0 is GPU-" in error["message"]


# covers: loading E1, E2, E11
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": 10000}, "cuda:0 (Fake GPU): the shards need 64000 bytes, of 10000 bytes 10000 are free"),
        ({"fail": "cuMemAllocFromPoolAsync:3"}, "CUDA_ERROR_OUT_OF_MEMORY (2)"),
        ({"fail": "cuMemcpyHtoDAsync:2"}, "cuda:0"),
        ({"lost_after": 2}, "CUDA_ERROR_LAUNCH_FAILED (719)"),
        ({"fail": "cuDevicePrimaryCtxRetain:1"}, "cuda:0"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_a_gpu_that_fails_is_named(data: Path, tmp_path: Path, options: dict[str, Any], words: str) -> None:
    path = tmp_path / "back.bin"
    error = failing(4, "load", data, *COLUMNS, "--verify", "--dump", path, "--json", env=fake(**options)).error
    assert error["kind"] == "system"
    assert words in error["message"] and "cuda:0" in error["message"]
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_not_there(data: Path) -> None:
    error = failing(4, "load", data, *ROWS, "--json", env=fake(devices=1)).error
    assert error["message"] == "cuda:1 cannot be used: there is one GPU, cuda:0"


def test_doctor_tells_of_gpus_and_of_kernels_that_are_refused() -> None:
    text = good("doctor", env=fake(devices=2)).out.decode()
    assert re.search(rf"ok +cuda:1 +Fake GPU, .* free of .*, GPU-{UUID}01\n", text)
    text = good("doctor", env=fake(refuse_module=1)).out.decode()
    assert re.search(r"absent +cuda:0 kernels +(the driver refuses the kernels|this build has no GPU kernels)", text)
