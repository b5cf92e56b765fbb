"""zarr stores, versions 2 and 3, against zarr-python: codecs, orders, absent chunks, damage."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import loadstone as ls
import numcodecs
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from placed import check_placed
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec, ZstdCodec

Array = npt.NDArray[Any]
TYPES = ["<f4", ">f8", "<i2", ">u4", "|u1", "|b1", "<c8", "<f2"]


def values(rng: random.Random, dtype: str) -> Array:
    shape = tuple(rng.randint(1, 13) for _ in range(rng.randint(1, 4)))
    made = np.random.default_rng(rng.randint(0, 1 << 30)).integers(0, 100, shape)
    return made.astype(dtype)


def check(path: Path, want: Array, devices: int = 3, **options: Any) -> None:
    check_placed(ls.open(path, **options), None, want, {"x": devices})


# covers: loading R3
@pytest.mark.parametrize("seed", range(60))
def test_v2_arrays_of_every_kind(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    want = values(rng, TYPES[seed % len(TYPES)])
    compressor = [None, numcodecs.Zlib(), numcodecs.GZip(), numcodecs.Zstd(), numcodecs.LZ4()][seed % 5]
    store = zarr.create_array(
        tmp_path / "a.zarr", shape=want.shape, dtype=want.dtype, zarr_format=2, compressors=compressor,
        chunks=tuple(rng.randint(1, n) for n in want.shape), order=rng.choice("CF"), filters=None,
        chunk_key_encoding={"name": "v2", "separator": rng.choice("./")},
    )  # fmt: skip
    store[...] = want
    check(tmp_path / "a.zarr", want)


# covers: loading R3
@pytest.mark.parametrize("seed", range(60))
def test_v3_arrays_of_every_kind(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    want = values(rng, TYPES[seed % len(TYPES)].replace(">", "<"))
    order = rng.sample(range(want.ndim), want.ndim)
    store = zarr.create_array(
        tmp_path / "a.zarr", shape=want.shape, dtype=want.dtype, zarr_format=3,
        chunks=tuple(rng.randint(1, n) for n in want.shape),
        filters=[TransposeCodec(order=order)] if seed % 2 else None,
        serializer=BytesCodec(endian=rng.choice(["little", "big"])),
        compressors=[None, GzipCodec(), ZstdCodec(checksum=True)][seed % 3],
        chunk_key_encoding={"name": rng.choice(["default", "v2"]), "separator": rng.choice("./")},
    )  # fmt: skip
    store[...] = want
    check(tmp_path / "a.zarr", want)


@pytest.mark.parametrize("version, fill", list(itertools.product([2, 3], [0.1, "nan", "-inf", 3.0])))
def test_absent_chunks_hold_the_fill_value(tmp_path: Path, version: Any, fill: float | str) -> None:
    value = np.float32(fill)
    store = zarr.create_array(
        tmp_path / "a.zarr", shape=(10, 7), chunks=(3, 4), dtype="f4", fill_value=value, zarr_format=version,
        compressors=None,
    )  # fmt: skip
    store[3:6, :4] = 5
    want = np.full((10, 7), value, np.float32)
    want[3:6, :4] = 5
    check(tmp_path / "a.zarr", want)
    with pytest.raises(ls.DataError, match="absent"):
        ls.open(tmp_path / "a.zarr", strict=True)


@pytest.mark.parametrize("version", [2, 3])
def test_no_dimensions_no_elements_and_groups(tmp_path: Path, version: Any) -> None:
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=version)
    made = {"one": np.array(2.5), "empty": np.zeros((0, 4), "f4"), "in/a": np.arange(20).reshape(5, 4)}
    for name, want in made.items():
        chunks = (2,) * want.ndim
        group.create_array(name, shape=want.shape, dtype=want.dtype, compressors=None, chunks=chunks)[...] = want
    catalog = ls.open(tmp_path / "g.zarr")
    for name, want in made.items():
        spec = ("x",) if want.ndim else ()
        placement = ls.load(catalog, ls.Sharding(ls.Mesh({"x": 2}), spec, uneven="ceil"), array=name, verify=True)
        for shard in placement.shards:
            assert np.asarray(shard.data).tobytes() == want[shard.index].tobytes(), (name, shard)
    with pytest.raises(ls.UsageError, match="in/a"):
        ls.open(tmp_path / "g.zarr", array="in/b")


def test_stores_stack(tmp_path: Path) -> None:
    parts = [np.arange(n * 3, dtype="i4").reshape(n, 3) for n in (4, 7, 2)]
    for i, part in enumerate(parts):
        zarr.create_array(tmp_path / f"s{i}.zarr", shape=part.shape, dtype="i4", chunks=(2, 2))[...] = part
    check(tmp_path / "s*.zarr", np.concatenate(parts))


# covers: loading R11
@pytest.mark.parametrize("codec", [None, GzipCodec(), ZstdCodec()])
@pytest.mark.parametrize("damage", ["cut", "longer", "noise", "empty"])
def test_damaged_chunks_are_errors(tmp_path: Path, codec: Any, damage: str) -> None:
    want = np.random.default_rng(1).integers(0, 9, (8, 8))
    store = zarr.create_array(tmp_path / "a.zarr", shape=(8, 8), chunks=(4, 8), dtype=want.dtype, compressors=codec)
    store[...] = want
    chunk = tmp_path / "a.zarr/c/1/0"
    data = chunk.read_bytes()
    noise = bytes(range(7)) + (b"" if codec else b"1")
    chunk.write_bytes({"cut": data[:-9], "longer": data * 2, "noise": noise, "empty": b""}[damage])
    with pytest.raises(ls.DataError, match="c/1/0"):
        ls.load(ls.open(tmp_path / "a.zarr"), ls.Sharding(ls.Mesh({"x": 2}), ("x",)))


def test_what_is_not_supported_is_named(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "b.zarr", shape=(4,), chunks=(2,), dtype="i4", compressors=BloscCodec())
    with pytest.raises(ls.DataError, match="blosc"):
        ls.open(tmp_path / "b.zarr")
    zarr.create_array(tmp_path / "s.zarr", shape=(4,), chunks=(1,), shards=(2,), dtype="i4")
    with pytest.raises(ls.DataError, match="sharding_indexed"):
        ls.open(tmp_path / "s.zarr")


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [-1]}, {"shape": "x"}, {"shape": [1 << 62]}, {"shape": [4, 4]}, {"data_type": "string"},
        {"codecs": []}, {"fill_value": "x"}, {"chunk_key_encoding": {"name": "v9"}}, {"unknown": 1},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}}, {"zarr_format": 4},
    ],
)  # fmt: skip
def test_wrong_metadata_is_an_error(tmp_path: Path, change: dict[str, Any]) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(4,), chunks=(2,), dtype="i4")[...] = np.arange(4)
    path = tmp_path / "a.zarr/zarr.json"
    good = json.loads(path.read_text())
    path.write_text(json.dumps(good | change))
    with pytest.raises(ls.DataError, match="zarr.json"):
        ls.open(tmp_path / "a.zarr")
    for text in ("", "{", "[]", "[" * 5000, json.dumps(good)[:-1]):
        path.write_text(text)
        with pytest.raises(ls.DataError, match="zarr.json"):
            ls.open(tmp_path / "a.zarr")
