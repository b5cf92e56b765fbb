"""Loads into the memory of a real GPU, read back by other libraries. Skipped where there is none."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import loadstone as ls


def gpu_problem() -> str:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no NVIDIA driver: {error}"
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver finds no GPU"
    return ""


pytestmark = pytest.mark.skipif(gpu_problem() != "", reason=gpu_problem())

ROWS = (700, 0, 1300, 48)


@pytest.fixture(scope="module", params=["C", "F", "big-endian"])
def shards(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    folder = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(1)
    array = rng.integers(0, 2**32, (sum(ROWS), 513), np.uint32).view(np.float32)
    at = 0
    for number, rows in enumerate(ROWS):
        part = array[at : at + rows]
        at += rows
        if request.param == "F":
            part = np.asfortranarray(part)
        if request.param == "big-endian":
            part = part.view(np.uint32).astype(">u4").view(">f4")
        np.save(folder / f"shard_{number}.npy", part)
    return folder, array


def on_gpu(parts: int, spec: tuple[str | None, ...]) -> ls.Sharding:
    devices = ["cuda:0"] if parts == 1 else [f"cuda:0.{k}" for k in range(parts)]
    return ls.Sharding(ls.Mesh({"x": parts}, devices=devices), spec)


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


# covers: loading R7, R14
@pytest.mark.parametrize(("parts", "spec"), [(1, (None, None)), (8, ("x", None)), (27, (None, "x"))])
def test_cupy_reads_what_the_files_hold(shards: tuple[Path, np.ndarray], parts: int, spec: tuple[str | None, ...]) -> None:
    cupy = pytest.importorskip("cupy")
    folder, array = shards
    placed = ls.load(ls.open(folder), on_gpu(parts, spec), verify=True)
    for shard in placed.shards:
        theirs = cupy.asarray(shard.data)
        assert theirs.data.ptr == shard.data.ptr
        assert np.array_equal(bits(cupy.asnumpy(theirs)), bits(array[shard.index]))


def test_torch_reads_what_the_files_hold(shards: tuple[Path, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    folder, array = shards
    placed = ls.load(ls.open(folder), on_gpu(1, (None, None)))
    theirs = torch.from_dlpack(placed.shards[0].data)
    assert theirs.data_ptr() == placed.shards[0].data.ptr
    assert np.array_equal(bits(theirs.cpu().numpy()), bits(array))


def test_the_whole_array_comes_back_to_numpy(shards: tuple[Path, np.ndarray]) -> None:
    folder, array = shards
    placed = ls.load(ls.open(folder), on_gpu(27, (None, "x")))
    assert np.array_equal(bits(placed.numpy()), bits(array))


def test_a_changed_byte_on_the_gpu_is_found_and_named(shards: tuple[Path, np.ndarray]) -> None:
    cupy = pytest.importorskip("cupy")
    folder, _ = shards
    ds = ls.open(folder)
    placed = ls.load(ds, on_gpu(8, ("x", None)), verify=True)
    cupy.asarray(placed.shards[5].data).view(cupy.uint32)[3, 7] ^= 1
    cupy.cuda.Device().synchronize()
    with pytest.raises(ls.PlacementError) as failure:
        ls.verify(placed, ds)
    assert "cuda:0.5" in str(failure.value)


def test_memory_goes_when_the_last_view_goes(shards: tuple[Path, np.ndarray]) -> None:
    cupy = pytest.importorskip("cupy")
    folder, _ = shards
    ds = ls.open(folder)
    ls.load(ds, on_gpu(1, (None, None)))
    before = cupy.cuda.runtime.memGetInfo()[0]
    for _ in range(20):
        ls.load(ds, on_gpu(1, (None, None)))
    cupy.cuda.Device().synchronize()
    assert before - cupy.cuda.runtime.memGetInfo()[0] < 64 << 20
