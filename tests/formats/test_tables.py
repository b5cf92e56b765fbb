"""Parquet and Arrow IPC against pyarrow, which wrote the files: values, refusals, damaged files."""

import random
from pathlib import Path
from typing import Any

import loadstone as ls
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from placed import check_placed as check

Array = npt.NDArray[Any]
ROWS = 1201
PLAIN = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def bits(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    """Every bit pattern: NaN payloads, denormals and -0.0 among them."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(rng.bytes(count), dtype).reshape(shape)


def fixed_lists(values: Array) -> pa.Array:
    out = pa.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        out = pa.FixedSizeListArray.from_arrays(out, size)
    return out


def make_columns(seed: int, rows: int = ROWS) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    out = {name: bits(rng, name, rows) for name in PLAIN}
    out["few"] = rng.integers(-2, 3, rows)
    out["vectors"] = bits(rng, "float32", rows, 6)
    out["boxes"] = bits(rng, "int16", rows, 2, 3)
    return out


def table_of(columns: dict[str, Array]) -> pa.Table:
    arrays = {name: pa.array(values) if values.ndim == 1 else fixed_lists(values) for name, values in columns.items()}
    return pa.table(arrays)


def write(path: Path, table: pa.Table, **options: Any) -> None:
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path, **options)
    else:
        pa.feather.write_feather(table, path, **options)


PARQUET = [
    {"compression": "none", "use_dictionary": False},
    {"compression": "snappy", "row_group_size": 100},
    {"compression": "zstd", "row_group_size": 333, "data_page_version": "2.0", "data_page_size": 500},
    {"compression": "gzip", "use_dictionary": False, "write_page_checksum": True, "data_page_size": 700},
    {"compression": "lz4", "column_encoding": {"few": "DELTA_BINARY_PACKED"}, "use_dictionary": False},
    {"compression": "brotli", "write_statistics": False, "store_schema": True},
]
ARROW: list[dict[str, Any]] = [
    {"compression": "uncompressed"},
    {"compression": "uncompressed", "chunksize": 97},
    {"compression": "lz4", "chunksize": 500},
    {"compression": "zstd"},
]
WAYS = [(".parquet", options) for options in PARQUET] + [(".arrow", options) for options in ARROW]


# covers: loading R3, loading Q1, loading Q2, loading Q3, loading Q5, loading Q8
@pytest.mark.parametrize(("suffix", "options"), WAYS, ids=lambda value: str(value)[:60])
def test_uneven_files_equal_pyarrow(tmp_path: Path, suffix: str, options: dict[str, Any]) -> None:
    columns = make_columns(7)
    bounds = [0, 500, 500, 503, ROWS]
    for number, (begin, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        part = {name: values[begin:end] for name, values in columns.items()}
        names = list(part) if number % 2 == 0 else list(reversed(part))  # matched by name, not by position
        # 9, 10, 11, 12: by number, not by letters
        write(tmp_path / f"part.{9 + number}{suffix}", table_of({name: part[name] for name in names}), **options)
    ds = ls.open(tmp_path, allow_gaps=True)
    assert set(ds.names) == set(columns)
    rng = random.Random(str((suffix, options)))
    for name, want in columns.items():
        axes, spec = rng.choice([({"x": 1}, ("x",)), ({"x": 5}, ("x",)), ({"x": 3}, ()), ({"x": 2, "y": 2}, (("y", "x"),))])
        check(ds, name, want, axes, spec)
    check(ds, "vectors", columns["vectors"], {"x": 2, "y": 3}, ("x", "y"))
    check(ds, "boxes", columns["boxes"], {"x": 2, "y": 3}, (None, "x", "y"))


# covers: loading Q5
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_what_is_no_array_is_named_and_left_out(tmp_path: Path, suffix: str) -> None:
    table = pa.table(
        {
            "good": pa.array([1, 2, 3], pa.int32()),
            "text": pa.array(["a", "b", "c"]),
            "nulls": pa.array([1, None, 3], pa.int64()),
            "ragged": pa.array([[1], [2, 3], [4]], pa.list_(pa.int32())),
            "decimal": pa.array([1, 2, 3], pa.decimal128(9, 2)),
            "time": pa.array([1, 2, 3]).cast(pa.timestamp("us")),
            "after": pa.array([0.5, 1.5, 2.5], pa.float64()),
        }
    )
    write(tmp_path / f"t{suffix}", table)
    if suffix == ".arrow":
        write(tmp_path / f"t{suffix}", table, compression="uncompressed")
    ds = ls.open(tmp_path / f"t{suffix}")
    assert "good" in ds.names and "after" in ds.names and "text" not in ds.names
    assert any("text" in note and "decimal" in note for note in ds.notes)
    check(ds, "after", np.array([0.5, 1.5, 2.5]), {"x": 1}, ("x",))
    for name, word in [("text", "string"), ("ragged", "unequal"), ("decimal", "decimal"), ("time", "--dtype int64")]:
        with pytest.raises(ls.DataError, match=word) as found:
            ls.load(ls.open(tmp_path / f"t{suffix}", array=name), array=name)
        assert name in str(found.value) and f"t{suffix}" in str(found.value)
    with pytest.raises(ls.DataError, match="nulls.*1 null"):
        ls.load(ls.open(tmp_path / f"t{suffix}", array="nulls"))
    ticks = ls.open(tmp_path / f"t{suffix}", array="time", dtype="int64")
    check(ticks, "time", np.array([1, 2, 3]), {"x": 1}, ("x",))


def test_lists_with_offsets_of_equal_length_are_a_matrix(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.float32).reshape(10, 6)
    offsets = pa.array(np.arange(11, dtype=np.int32) * 6)
    table = pa.table({"x": pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))})
    ways: list[tuple[str, dict[str, Any]]] = [("a.parquet", {})]
    ways += [(f"{codec}.arrow", {"compression": codec}) for codec in ("uncompressed", "lz4", "zstd")]
    for name, options in ways:
        write(tmp_path / name, table, **options)
        check(ls.open(tmp_path / name), "x", values, {"x": 2}, ("x",))
    # A slice begins inside the values; the writer may keep or rebase the offsets.
    with pa.OSFile(str(tmp_path / "slice.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.slice(3, 4))
    check(ls.open(tmp_path / "slice.arrow"), "x", values[3:7], {"x": 1}, ("x",))
    large = pa.table({"x": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), pa.array(values.reshape(-1)))})
    write(tmp_path / "large.arrow", large, compression="zstd", chunksize=3)
    check(ls.open(tmp_path / "large.arrow"), "x", values, {"x": 3}, ("x",))
    ragged = pa.table({"x": [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]})
    write(tmp_path / "ragged.arrow", ragged, compression="lz4")
    with pytest.raises(ls.DataError, match="unequal lengths: row 1"):
        ls.open(tmp_path / "ragged.arrow", array="x")


# covers: loading Q6
def test_the_family_of_formats_is_told_apart(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2]})
    with pa.OSFile(str(tmp_path / "s.arrows"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ls.DataError, match="stream"):
        ls.open(tmp_path / "s.arrows")
    (tmp_path / "v1.feather").write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    with pytest.raises(ls.DataError, match="Feather version 1"):
        ls.open(tmp_path / "v1.feather")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_damaged_files_are_refused_or_right(tmp_path: Path, suffix: str) -> None:
    """Any byte changed or cut: an error that names the file, or the very bytes (where nothing guards them), no crash."""
    path = tmp_path / f"t{suffix}"
    table = table_of({"x": np.arange(300, dtype=np.int64), "v": np.arange(600, dtype=np.float32).reshape(300, 2)})
    options = {"write_page_checksum": True} if suffix == ".parquet" else {"compression": "lz4"}
    write(path, table, **options)
    whole = path.read_bytes()
    rng = random.Random(3)
    refused = 0
    for _ in range(300):
        bad = bytearray(whole)
        if rng.random() < 0.3:
            del bad[rng.randrange(len(bad)) :]
        else:
            for _ in range(rng.choice([1, 1, 4])):
                place = rng.randrange(len(bad)) if rng.random() < 0.5 else len(bad) - 1 - rng.randrange(min(600, len(bad)))
                bad[place] = rng.randrange(256)
        path.write_bytes(bad)
        try:
            ds = ls.open(path)
            for name in ds.names:
                ls.load(ds, array=name)
        except (ls.DataError, ls.UsageError) as error:
            refused += 1
            assert f"t{suffix}" in str(error) or "array" in str(error)
        except ls.ResourceError as error:
            assert "memory" in str(error)
    assert refused > 100


# covers: loading Q5
@pytest.mark.parametrize(("name", "options"), [("a.parquet", {"row_group_size": 70}), ("b.arrow", {"compression": "zstd"}),
                                               ("c.arrow", {"compression": "uncompressed", "chunksize": 64})])
def test_fill_takes_the_place_of_nulls(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    columns = {kind: bits(rng, kind, 200) for kind in ["bool", "int16", "uint64", "float16", "float32"]}
    holes = rng.random(200) < 0.3
    holes[64:128] = False  # a record batch without nulls
    table = pa.table({kind: pa.array(values, mask=holes) for kind, values in columns.items()})
    write(tmp_path / name, table, **options)
    for kind, values in columns.items():
        fill: Any = {"bool": True, "float16": "nan", "float32": -0.5}.get(kind, 7)
        want = values.copy()
        want[holes] = np.array(fill, dtype=object).astype(values.dtype)
        check(ls.open(tmp_path / name, array=kind, fill=fill), kind, want, {"x": 3}, ("x",))
    with pytest.raises(ls.UsageError, match="no value of int16"):
        ls.open(tmp_path / name, array="int16", fill="70000")


# covers: loading Q5
def test_columns_make_one_matrix(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    data = {"a": bits(rng, "float32", 50), "other": bits(rng, "int64", 50), "b": bits(rng, "float32", 50),
            "c": bits(rng, "float32", 50)}
    write(tmp_path / "s0.parquet", table_of({k: v[:30] for k, v in data.items()}), row_group_size=7)
    write(tmp_path / "s1.parquet", table_of({k: data[k][30:] for k in ["c", "b", "a", "other"]}))
    ds = ls.open(tmp_path, columns=["c", "a", "b"])
    want = np.stack([data["c"], data["a"], data["b"]], axis=1)
    check(ds, "c,a,b", want, {"x": 2, "y": 3}, ("x", "y"))
    assert any("between" in note for note in ds.notes)  # over-read is declared
    check(ls.open(tmp_path, columns=["b"]), "b", data["b"][:, None], {"x": 2}, ("x",))
    with pytest.raises(ls.DataError, match="float32 and int64"):
        ls.open(tmp_path, columns=["a", "other"])
    with pytest.raises(ls.DataError, match="no column 'nope'"):
        ls.open(tmp_path, columns=["a", "nope"])
