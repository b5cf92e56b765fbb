"""PyTorch takes loaded shards by DLPack without a copy."""

import pathlib

import loadstone as ls
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes")

pytestmark = pytest.mark.heavy

TYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}


def numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)


def raw_shards(directory: pathlib.Path, name: str) -> np.ndarray:
    """Three raw files of uneven rows with random bytes; returns the whole array. bool holds 0 and 1 only."""
    rng = np.random.default_rng(7)
    size = numpy_type(name).itemsize
    data = rng.integers(0, 2 if name == "bool" else 256, (12, 6 * size), dtype=np.uint8)
    for number, rows in enumerate((data[:1], data[1:8], data[8:])):
        rows.tofile(directory / f"shard_{number}.bin")
    return data.view(numpy_type(name))


@pytest.mark.parametrize("name", TYPES)
def test_from_dlpack_shares_the_memory_of_every_shard(name: str, tmp_path: pathlib.Path) -> None:
    whole = raw_shards(tmp_path, name)
    catalog = ls.open(tmp_path, raw=True, dtype=name, row_shape=(6,))
    placement = ls.load(catalog, ls.Sharding(ls.Mesh({"x": 2, "y": 2}), ("x", "y")))
    for shard in placement.shards:
        tensor = torch.from_dlpack(shard.data)
        assert tensor.dtype == TYPES[name]
        assert tuple(tensor.shape) == (6, 3)
        assert tensor.data_ptr() == np.asarray(shard.data).ctypes.data
        held = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        assert held == np.ascontiguousarray(whole[shard.index]).tobytes()


def test_a_write_through_torch_is_seen_by_numpy(tmp_path: pathlib.Path) -> None:
    raw_shards(tmp_path, "float32")
    placement = ls.load(ls.open(tmp_path, raw=True, dtype="float32", row_shape=(6,)), ls.Sharding.single())
    tensor = torch.from_dlpack(placement.shards[0].data)
    tensor[3, 4] = 42.0
    assert np.asarray(placement.shards[0].data)[3, 4] == 42.0


def test_the_tensor_keeps_the_memory_alive(tmp_path: pathlib.Path) -> None:
    whole = raw_shards(tmp_path, "int64")
    placement = ls.load(ls.open(tmp_path, raw=True, dtype="int64", row_shape=(6,)), ls.Sharding.single())
    tensor = torch.from_dlpack(placement.shards[0].data)
    del placement
    junk = [np.full(whole.nbytes, 255, np.uint8) for _ in range(64)]
    assert tensor.numpy().tobytes() == whole.tobytes()
    assert len(junk) == 64
