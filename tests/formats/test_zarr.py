"""zarr stores, versions 2 and 3, against zarr-python: codecs, orders, shards, absent chunks, damage."""

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
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

Array = npt.NDArray[Any]
TYPES = ["<f4", ">f8", "<i2", ">u4", "|u1", "|b1", "<c8", "<f2"]


STRATEGIES = ["auto", "global", "per_device", "per_process"]


def blosc(rng: random.Random) -> dict[str, Any]:
    shuffle = rng.choice(["noshuffle", "shuffle", "bitshuffle"])
    return {"cname": rng.choice(["blosclz", "lz4", "lz4hc", "zlib", "zstd"]), "shuffle": shuffle, "clevel": 5}


def blosc_v2(rng: random.Random) -> numcodecs.Blosc:
    settings = blosc(rng)
    return numcodecs.Blosc(settings["cname"], 5, ["noshuffle", "shuffle", "bitshuffle"].index(settings["shuffle"]))


def values(rng: random.Random, dtype: str) -> Array:
    shape = tuple(rng.randint(1, 13) for _ in range(rng.randint(1, 4)))
    made = np.random.default_rng(rng.randint(0, 1 << 30)).integers(0, 100, shape)
    return made.astype(dtype)


def check(path: Path, want: Array, devices: int = 3, **options: Any) -> None:
    check_placed(ls.open(path, **options), None, want, {"x": devices})


def check_any(path: Path, want: Array, rng: random.Random) -> None:
    """Over a random mesh, with a random strategy."""
    spec = tuple(rng.sample(["x", "y"] + [None] * want.ndim, want.ndim))
    check_placed(ls.open(path), None, want, {"x": 2, "y": 3}, spec, strategy=rng.choice(STRATEGIES))


def v2_filters(rng: random.Random, dtype: np.dtype[Any]) -> list[Any] | None:
    number = dtype.kind in "iuf" and dtype.itemsize in (1, 4, 8)
    every = [None, [numcodecs.Shuffle(dtype.itemsize)], [numcodecs.Zlib(1)]]
    if number:
        every += [[numcodecs.Delta(dtype.str)], [numcodecs.Delta(dtype.str), numcodecs.Shuffle(dtype.itemsize)]]
    if dtype == np.dtype("<i2"):
        every += [[numcodecs.Delta("<i2", "<i4")], [numcodecs.Delta("<i2", "<i1")]]
    return rng.choice(every)


# covers: loading R3, Z1
@pytest.mark.parametrize("seed", range(90))
def test_v2_arrays_of_every_kind(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    want = values(rng, TYPES[seed % len(TYPES)])
    compressor = [
        None, numcodecs.Zlib(), numcodecs.GZip(), numcodecs.Zstd(), numcodecs.LZ4(), numcodecs.BZ2(), blosc_v2(rng)
    ][seed % 7]  # fmt: skip
    store = zarr.create_array(
        tmp_path / "a.zarr", shape=want.shape, dtype=want.dtype, zarr_format=2, compressors=compressor,
        chunks=tuple(rng.randint(1, n) for n in want.shape), order=rng.choice("CF"),
        filters=v2_filters(rng, want.dtype), chunk_key_encoding={"name": "v2", "separator": rng.choice("./")},
    )  # fmt: skip
    store[...] = want
    check_any(tmp_path / "a.zarr", store[...], rng)  # a delta of another width may wrap


def v3_codecs(rng: random.Random) -> list[Any]:
    every = [GzipCodec(), ZstdCodec(checksum=rng.random() < 0.5), BloscCodec(**blosc(rng)), Crc32cCodec()]
    return [rng.choice(every) for _ in range(rng.choice([0, 1, 1, 2, 3]))]


# covers: loading R3, Z3
@pytest.mark.parametrize("seed", range(90))
def test_v3_arrays_of_every_kind(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    want = values(rng, TYPES[seed % len(TYPES)].replace(">", "<"))
    order = rng.sample(range(want.ndim), want.ndim)
    store = zarr.create_array(
        tmp_path / "a.zarr", shape=want.shape, dtype=want.dtype, zarr_format=3,
        chunks=tuple(rng.randint(1, n) for n in want.shape),
        filters=[TransposeCodec(order=order)] if seed % 2 else None,
        serializer=BytesCodec(endian=rng.choice(["little", "big"])),
        compressors=v3_codecs(rng) or None,
        chunk_key_encoding={"name": rng.choice(["default", "v2"]), "separator": rng.choice("./")},
    )  # fmt: skip
    store[...] = want
    check_any(tmp_path / "a.zarr", want, rng)


# covers: loading Z4, R3
@pytest.mark.parametrize("seed", range(90))
def test_sharded_arrays_of_every_kind(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    want = values(rng, TYPES[seed % len(TYPES)].replace(">", "<"))
    chunks = tuple(rng.randint(1, max(1, n // 2)) for n in want.shape)
    order = rng.sample(range(want.ndim), want.ndim)
    inner: list[Any] = [TransposeCodec(order=order)] if rng.random() < 0.3 else []
    index: list[Any] = [BytesCodec(endian=rng.choice(["little", "big"]))]
    store = zarr.create_array(
        tmp_path / "a.zarr", shape=want.shape, dtype=want.dtype, zarr_format=3, fill_value=want.dtype.type(1),
        chunks=tuple(c * rng.randint(1, 3) for c in chunks), filters=None, compressors=None,
        serializer=ShardingCodec(
            chunk_shape=chunks, codecs=[*inner, BytesCodec(endian=rng.choice(["little", "big"])), *v3_codecs(rng)],
            index_codecs=index + rng.choice([[], [Crc32cCodec()]]), index_location=rng.choice(["start", "end"]),
        ),
    )  # fmt: skip
    if rng.random() < 0.3:  # inner chunks and whole shards that are not there
        store[:1] = want[:1]
        want[1:] = 1
    else:
        store[...] = want
    check_any(tmp_path / "a.zarr", want, rng)


# covers: loading Z4
def test_a_box_of_a_shard_reads_the_index_and_its_inner_chunks_only(tmp_path: Path) -> None:
    want = np.random.default_rng(1).integers(0, 1 << 30, (64, 64), np.int64)
    zarr.create_array(
        tmp_path / "a.zarr", shape=want.shape, dtype=want.dtype, chunks=(4, 4), shards=(64, 64), compressors=None
    )[...] = want
    catalog = ls.open(tmp_path / "a.zarr")
    assert catalog.counters["bytes_read"] < 256 * 16 + 4 + 4096, "the index and the metadata"
    sharding = ls.Sharding(ls.Mesh({"y": 16}, processes=1), (None, "y"))
    assert ls.plan(catalog, sharding, process=3).totals["bytes_read"] == want[:, 12:16].nbytes
    one = ls.load(catalog, sharding, process=3)
    assert np.asarray(one.shards[0].data).tobytes() == want[:, 12:16].tobytes()


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


@pytest.mark.parametrize("version", [2, 3])
def test_an_absent_chunk_of_no_dimensions_is_the_fill_value(tmp_path: Path, version: Any) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(), dtype="f8", fill_value=2.5, zarr_format=version)
    check(tmp_path / "a.zarr", np.array(2.5))
    assert any("absent" in note for note in ls.open(tmp_path / "a.zarr").notes)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("version", [2, 3])
def test_consolidated_metadata(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "g.zarr"
    group = zarr.create_group(path, zarr_format=version)
    want = np.arange(20.0).reshape(5, 4)
    for name in ("a", "in/b"):
        group.create_array(name, shape=want.shape, dtype=want.dtype, chunks=(2, 3))[...] = want
    zarr.consolidate_metadata(str(path), zarr_format=version)
    group.create_array("late", shape=want.shape, dtype=want.dtype)
    catalog = ls.open(path)
    assert sorted(catalog.names) == ["a", "in/b"], "what the consolidated metadata lists, as zarr-python has it"
    for name in catalog.names:
        check_placed(catalog, name, want, {"x": 2})
    own = path / "a" / ("zarr.json" if version == 3 else ".zarray")
    text = own.read_text()
    own.unlink()
    check_placed(ls.open(path), "a", want, {"x": 2})
    own.write_text(json.dumps(json.loads(text) | {"shape": [3, 4]}))
    with pytest.raises(ls.DataError, match="out of date"):
        ls.open(path)
    for file in path.rglob("*"):
        if file.is_file() and "a" in file.relative_to(path).parts:
            file.unlink()
    for folder in sorted((path / "a").rglob("*"), reverse=True):
        folder.rmdir()
    (path / "a").rmdir()
    with pytest.raises(ls.DataError, match="is missing"):
        ls.open(path)


def test_types_that_are_named(tmp_path: Path) -> None:
    ticks = np.array(["2020-01-01", "NaT", "1970-01-02"], "M8[s]")
    for version in (2, 3):
        path = tmp_path / f"t{version}.zarr"
        made: Any = zarr.create_array(path, shape=(3,), chunks=(2,), dtype="M8[s]", zarr_format=version)  # type: ignore[arg-type]
        made[:2] = ticks[:2]
        with pytest.raises(ls.DataError, match="--dtype int64"):
            ls.open(path)
        want = ticks.copy()
        want[2] = "NaT"
        check(path, want.view("i8"), dtype="int64")
        with pytest.raises(ls.UsageError, match="8 bytes"):
            ls.open(path, dtype="int32")
    zarr.create_array(tmp_path / "f.zarr", shape=(3,), dtype="f4")[...] = 1
    with pytest.raises(ls.UsageError, match="does not cast"):
        ls.open(tmp_path / "f.zarr", dtype="f8")


# covers: loading D22, Z2
def test_a_million_absent_chunks_cost_nothing_and_folders_are_listed(tmp_path: Path) -> None:
    store = zarr.create_array(tmp_path / "a.zarr", shape=(1000, 1000), chunks=(1, 1), dtype="i2", fill_value=7)
    store[500, 3:5] = 1
    catalog = ls.open(tmp_path / "a.zarr")
    assert any("999998 of 1000000 chunks" in note for note in catalog.notes)
    assert catalog.counters["opens"] <= 2
    want = np.full((1000, 1000), 7, "i2")
    want[500, 3:5] = 1
    check_placed(catalog, None, want, {"x": 2})


def test_stores_stack(tmp_path: Path) -> None:
    parts = [np.arange(n * 3, dtype="i4").reshape(n, 3) for n in (4, 7, 2)]
    for i, part in enumerate(parts):
        zarr.create_array(tmp_path / f"s{i}.zarr", shape=part.shape, dtype="i4", chunks=(2, 2))[...] = part
    check(tmp_path / "s*.zarr", np.concatenate(parts))


# covers: loading R11
@pytest.mark.parametrize("codec", [None, GzipCodec(), ZstdCodec(), BloscCodec(), BloscCodec(cname="zstd"), Crc32cCodec()])
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
    for name, filters in {
        "fixedscaleoffset": numcodecs.FixedScaleOffset(0, 1, "f4"),
        "packbits": numcodecs.PackBits(),
        "'<f2'": numcodecs.Delta("f2"),
    }.items():
        path = tmp_path / f"{filters.codec_id}.zarr"
        dtype = "f4" if "scale" in name else "bool" if "bits" in name else "f2"
        zarr.create_array(path, shape=(4,), chunks=(2,), dtype=dtype, filters=[filters], zarr_format=2)
        with pytest.raises(ls.DataError, match=name):
            ls.open(path)
    inner = ShardingCodec(chunk_shape=(1,))
    zarr.create_array(
        tmp_path / "s.zarr", shape=(4,), chunks=(4,), dtype="i4", compressors=None,
        serializer=ShardingCodec(chunk_shape=(2,), codecs=[inner]),
    )  # fmt: skip
    with pytest.raises(ls.DataError, match="shards in shards"):
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
