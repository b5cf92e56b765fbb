"""What `write` makes, read by the package of each format: equal, byte for byte."""

import json
import zipfile
from pathlib import Path
from typing import Any

import loadstone as ls
import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest
import zarr
from reference import EXTENSIONS, read

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS = ["bool", *INTEGERS, "float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES: dict[str, list[str]] = {
    "npy": NUMBERS + COMPLEX,
    "npz": NUMBERS + COMPLEX,
    "safetensors": [*NUMBERS, "complex64"],
    "arrow": NUMBERS,
    "parquet": NUMBERS,
    "hdf5": NUMBERS + COMPLEX,
    "zarr": NUMBERS + COMPLEX,
    "zarr2": NUMBERS + COMPLEX,
}
STORED: list[tuple[str, str | None, Any]] = [
    ("npz", "deflate", None),
    ("npz", "deflate:9", None),
    ("arrow", None, 7),
    ("arrow", "lz4", None),
    ("arrow", "zstd:3", 11),
    ("parquet", None, 7),
    ("parquet", "snappy", None),
    ("parquet", "gzip", 20),
    ("parquet", "zstd:1", 11),
    ("parquet", "lz4", None),
    ("parquet", "brotli", None),
    ("hdf5", None, (5, 3, 2)),
    ("hdf5", "deflate", None),
    ("hdf5", "shuffle+deflate:9", (16, 2, 5)),
    ("zarr", None, (5, 3, 2)),
    ("zarr", "gzip", (16, 3, 5)),
    ("zarr", "zstd:7", (4, 4, 4)),
    ("zarr2", "zlib:1", (5, 3, 2)),
    ("zarr2", "gzip", None),
    ("zarr2", "zstd", (4, 4, 4)),
]


def name_in(format: str) -> str:
    return "" if format.startswith("zarr") else "data"


def made_up(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> Any:
    """The same elements, as NumPy reads them out of one .npy file."""
    return np.load(ls.write_dataset(tmp_path / "want", shape, dtype, seed=4, replace=True)[0])


@pytest.mark.parametrize("format", DTYPES)
# covers: loading E18, R3
def test_every_type_is_what_the_reference_reads(format: str, tmp_path: Path) -> None:
    for dtype in DTYPES[format]:
        want = made_up(tmp_path, (23, 4), dtype)
        files = ls.write_dataset(tmp_path / dtype, (23, 4), dtype, seed=4, shards=3, uneven=True, format=format)
        assert [Path(f).name for f in files] == [f"shard_000{i}{EXTENSIONS[format]}" for i in range(3)]
        parts = [read(format, Path(f), name_in(format)) for f in files]
        assert all(part.dtype == want.dtype and part.shape[1:] == (4,) for part in parts), (format, dtype)
        assert b"".join(part.tobytes() for part in parts) == want.tobytes(), (format, dtype)
        assert np.asarray(ls.load(ls.open(tmp_path / dtype)).shards[0].data).tobytes() == want.tobytes()


@pytest.mark.parametrize(("format", "compress", "chunks"), STORED)
# covers: loading E18
def test_codecs_and_chunks(format: str, compress: str | None, chunks: Any, tmp_path: Path) -> None:
    want = made_up(tmp_path, (37, 3, 5), "int32")
    options: dict[str, Any] = {"format": format, "compress": compress, "chunks": chunks}
    (path,) = ls.write_dataset(tmp_path / "set", want.shape, "int32", seed=4, **options)
    got = read(format, Path(path), name_in(format))
    assert got.shape == want.shape and got.tobytes() == want.tobytes()
    assert np.asarray(ls.load(ls.open(path)).shards[0].data).tobytes() == want.tobytes()
    if format == "parquet" and chunks:
        assert pyarrow.parquet.ParquetFile(path).num_row_groups == -(-37 // chunks)


@pytest.mark.parametrize("format", ["npy", "npz", "safetensors", "hdf5", "zarr", "zarr2"])
def test_scalars_and_empty_arrays(format: str, tmp_path: Path) -> None:
    for shape in [(), (0, 3), (5, 0), (1,)]:
        want = made_up(tmp_path, shape, "float32")
        (path,) = ls.write_dataset(tmp_path / "set", shape, seed=4, format=format, replace=True)
        got = read(format, Path(path), name_in(format))
        assert got.shape == shape and got.tobytes() == want.tobytes(), (format, shape)
        assert ls.open(path).shape == shape


def test_arrays_larger_than_a_pull_and_rows_larger_still(tmp_path: Path) -> None:
    for shape in [(3, 1_500_000), (2_500_000,)]:
        want = made_up(tmp_path, shape, "float32")
        for format in ("npz", "safetensors", "hdf5", "zarr", "arrow"):
            (path,) = ls.write_dataset(tmp_path / "set", shape, seed=4, format=format, replace=True)
            assert read(format, Path(path), name_in(format)).tobytes() == want.tobytes(), (format, shape)


def test_the_same_arrays_give_the_same_file(tmp_path: Path) -> None:
    for format in ("npz", "safetensors", "arrow", "parquet", "zarr"):
        one, two = (ls.write_dataset(tmp_path / f"{format}{i}", (9, 2), format=format)[0] for i in range(2))
        if format != "zarr":
            assert Path(one).read_bytes() == Path(two).read_bytes(), format


def test_files_are_as_their_packages_write_them(tmp_path: Path) -> None:
    (path,) = ls.write_dataset(tmp_path / "a", (4, 2), format="npz", name="x")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and archive.namelist() == ["x.npy"]
    (path,) = ls.write_dataset(tmp_path / "b", (4, 2), format="zarr")
    info: Any = zarr.open(path, mode="r")
    assert info.metadata.zarr_format == 3 and info.chunks == (4, 2)
    (path,) = ls.write_dataset(tmp_path / "c", (4, 2), format="zarr2", compress="zstd")
    info = zarr.open(path, mode="r")
    assert info.metadata.zarr_format == 2
    (path,) = ls.write_dataset(tmp_path / "d", (4, 2), format="arrow")
    assert [str(f) for f in pyarrow.feather.read_table(path).schema] == [
        "pyarrow.Field<data: fixed_size_list<item: float not null>[2] not null>"
    ]


def test_types_that_a_package_lacks_come_back_through_loadstone(tmp_path: Path) -> None:
    want = ls.write_dataset(tmp_path / "want", (6, 4), "bfloat16", seed=4)[0]
    plain = np.load(want).tobytes()
    for format in ("safetensors", "hdf5", "zarr"):
        ds = ls.open(ls.write_dataset(tmp_path / format, (6, 4), "bfloat16", seed=4, format=format))
        assert str(ds.dtype) == "bfloat16"
        assert np.asarray(ls.load(ds).shards[0].data).tobytes() == plain
    for format in ("arrow", "parquet", "zarr2"):
        with pytest.raises(ls.UsageError, match=f"bfloat16.*cannot be written as {format}"):
            ls.write_dataset(tmp_path / "x", (6, 4), "bfloat16", format=format)
    assert not (tmp_path / "x").exists()


# covers: loading E18
def test_what_cannot_be_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"format": "h5"}, "cannot write format 'h5'.*known: npy, raw, npz"),
        ({"format": "hdf"}, "did you mean 'hdf5'"),
        ({"format": "npy", "compress": "zstd"}, "cannot compress npy with 'zstd': known are none"),
        ({"format": "npz", "compress": "lz4"}, "known are none, deflate"),
        ({"format": "npz", "compress": "none:3"}, "level"),
        ({"format": "npz", "compress": "deflate:x"}, "codec:level"),
        ({"format": "npz", "compress": ""}, "codec:level"),
        ({"format": "npz", "chunks": (2, 2)}, "npz files have no chunks"),
        ({"format": "zarr", "chunks": (2,)}, "do not fit.*expected 2 numbers"),
        ({"format": "zarr", "chunks": (0, 2)}, "extents from 1"),
        ({"format": "hdf5", "chunks": (2**40, 2**40)}, "2 GiB"),
        ({"format": "parquet", "chunks": (2, 2)}, "expected 1 number"),
        ({"format": "hdf5", "name": "a//b"}, "no path of HDF5"),
        ({"format": "zarr", "name": "../up"}, "no path of zarr"),
        ({"format": "safetensors", "name": "__metadata__"}, "the format's own"),
        ({"format": "safetensors", "name": "a\nb"}, "no plain text"),
        ({"format": "parquet", "shape": ()}, "no rows"),
        ({"format": "arrow", "shape": (3, 0)}, "lists of no"),
    ]
    for options, words in bad:
        shape = options.pop("shape", (4, 4))
        with pytest.raises(ls.UsageError, match=words):
            ls.write_dataset(tmp_path / "x", shape, **options)
        assert not (tmp_path / "x").exists(), options


# covers: loading E18
def test_replace_takes_whole_stores_but_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    ls.write_dataset(folder, (8, 2), format="zarr", shards=2)
    ls.write_dataset(folder, (8, 2), format="zarr2", shards=3, replace=True)
    assert len(list(folder.iterdir())) == 4
    (folder / "shard_0001.zarr" / "mine.txt").write_text("keep")
    with pytest.raises(ls.UsageError, match="mine.txt.*nothing was removed"):
        ls.write_dataset(folder, (8, 2), replace=True)
    assert (folder / "shard_0001.zarr" / "mine.txt").read_text() == "keep"
    (folder / "shard_0001.zarr" / "mine.txt").unlink()
    (folder / "shard_0001.zarr" / "0.0").unlink()
    (folder / "shard_0001.zarr" / "0.0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ls.UsageError, match="no part of a zarr store"):
        ls.write_dataset(folder, (8, 2), replace=True)
    (folder / "shard_0001.zarr" / "0.0").unlink()
    ls.write_dataset(folder, (8, 2), replace=True)
    assert json.loads((folder / ".loadstone-write.json").read_text()) == {"files": ["shard_0000.npy"]}
    assert len(list(folder.iterdir())) == 2
