"""Malformed files that the packages' own suites refuse, made anew by what they do: NumPy's lib/tests/test_format.py,
safetensors' tensor.rs, Arrow's ipc/read_write_test.cc and its Parquet tests. Each must end in an error that names the file."""

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loadstone as ls
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import safetensors.numpy


def refused(path: Path, words: str = "") -> None:
    with pytest.raises((ls.DataError, ls.UsageError), match=words or None) as caught:
        ds = ls.open(path)
        for name in ds.names:
            ls.load(ds, array=name)
    assert path.name in str(caught.value)


# --- NumPy


def npy(header: str | bytes, payload: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode("latin1") if isinstance(header, str) else header
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + payload


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"
NUMPY: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", ""),
    "magic alone": (b"\x93NUMPY", ""),
    "magic and version": (b"\x93NUMPY\x01\x00", ""),
    "another magic": (b"\x92NUMPY\x01\x00" + npy(GOOD, bytes(24))[8:], ""),
    "version 4": (npy(GOOD, bytes(24), (4, 0)), "version"),
    "version 1.1": (npy(GOOD, bytes(24), (1, 1)), "version"),
    "version 0": (npy(GOOD, bytes(24), (0, 0)), "version"),
    "a header that is cut": (npy(GOOD)[:-5], ""),
    "a header that claims more than the file": (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + GOOD.encode(), ""),
    "no dictionary": (npy("[1, 2]"), ""),
    "a number": (npy("1"), ""),
    "empty": (npy("{}"), ""),
    "no descr": (npy("{'fortran_order': False, 'shape': (3,)}", bytes(24)), "descr"),
    "no shape": (npy("{'descr': '<f8', 'fortran_order': False}", bytes(24)), "shape"),
    "no order": (npy("{'descr': '<f8', 'shape': (3,)}", bytes(24)), "fortran_order"),
    "one key more": (npy(GOOD[:-1] + "'extra': 1}", bytes(24)), ""),
    "a key that is a number": (npy(GOOD[:-1] + "1: 1}", bytes(24)), ""),
    "a key twice": (npy(GOOD[:-1] + "'shape': (3,)}", bytes(24)), ""),
    "a shape of floats": (npy(GOOD.replace("(3,)", "(3.0,)"), bytes(24)), "shape"),
    "a shape that is a number": (npy(GOOD.replace("(3,)", "3"), bytes(24)), "shape"),
    "a shape of text": (npy(GOOD.replace("(3,)", "('3',)"), bytes(24)), "shape"),
    "a negative shape": (npy(GOOD.replace("(3,)", "(-3,)"), bytes(24)), ""),
    "a shape beyond 2^64": (npy(GOOD.replace("(3,)", f"({2**64 + 3},)"), bytes(24)), ""),
    "a shape whose product wraps": (npy(GOOD.replace("(3,)", f"({2**33}, {2**33})"), bytes(24)), ""),
    "an order that is a number": (npy(GOOD.replace("False", "1"), bytes(24)), "fortran_order"),
    "an order that is None": (npy(GOOD.replace("False", "None"), bytes(24)), "fortran_order"),
    "a descr that is a number": (npy(GOOD.replace("'<f8'", "7"), bytes(24)), ""),
    "a descr of nothing": (npy(GOOD.replace("<f8", ""), bytes(24)), ""),
    "a descr that is no type": (npy(GOOD.replace("<f8", "<x9"), bytes(24)), ""),
    "an expression": (npy(GOOD.replace("(3,)", "(1+2,)"), bytes(24)), ""),
    "a call": (npy(GOOD.replace("(3,)", "__import__('os').getpid()"), bytes(24)), ""),
    "brackets without end": (npy("(" * 5000 + GOOD, bytes(24)), ""),
    "a NUL in the header": (npy(GOOD.replace("3", "3\0"), bytes(24)), ""),
    "payload that is cut": (npy(GOOD, bytes(23)), "expected .*24|24 bytes"),
    "payload with more behind": (npy(GOOD, bytes(25)), ""),
    "objects": (npy(GOOD.replace("<f8", "|O"), b"\x80\x04]\x94."), "object"),
}


@pytest.mark.parametrize("what", NUMPY)
# covers: loading N1, N2, D16
def test_npy_as_numpy_tests_it(what: str, tmp_path: Path) -> None:
    content, words = NUMPY[what]
    (tmp_path / "bad.npy").write_bytes(content)
    refused(tmp_path / "bad.npy", words)
    # NumPy refuses it, too, but for two that it does not see.
    if what not in ("payload with more behind", "a key twice"):
        with pytest.raises(Exception):  # noqa: B017 - of a dozen classes
            np.load(io.BytesIO(content), allow_pickle=False, max_header_size=100_000)


def test_npy_headers_that_numpy_takes(tmp_path: Path) -> None:
    for header in [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
        "{'shape': (3,), 'fortran_order': False, 'descr': '<f8'}",
        '{"descr": "<f8", "fortran_order": False, "shape": (3,), }     \n',
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3L,), }",  # Python 2
    ]:
        for version in [(1, 0), (2, 0), (3, 0)]:
            content = npy(header, np.arange(3.0).tobytes(), version)
            (tmp_path / "good.npy").write_bytes(content)
            assert np.asarray(ls.load(ls.open(tmp_path / "good.npy")).shards[0].data).tolist() == [0, 1, 2]


# --- safetensors


def tensors(header: Any, payload: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + payload


def entry(shape: list[Any], begin: int, end: int, dtype: str = "I32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


SAFETENSORS: dict[str, tuple[bytes, str]] = {
    "header too small": (b"", ""),
    "seven bytes": (b"\x3c\0\0\0\0\0\0", ""),
    "header too large": (b"\x3c\0\0\0\0\xff\xff\xff{}", ""),
    "invalid header length": (struct.pack("<Q", 60), ""),
    "invalid header start": (tensors(b"[]"), ""),
    "no text": (tensors(b"\xff\xff{}"), ""),
    "text that is cut": (tensors(b'{"a": {'), ""),
    "metadata incomplete buffer, more": (tensors({"t": entry([2], 0, 8)}, bytes(9)), ""),
    "metadata incomplete buffer, less": (tensors({"t": entry([2], 0, 8)}, bytes(7)), ""),
    "nothing but trailing bytes": (tensors({}, b"x"), ""),
    "invalid info": (tensors({"t": entry([2, 2], 0, 4)}, bytes(4)), "'t'"),
    "offsets that overlap": (tensors({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)), ""),
    "offsets that leave a hole": (tensors({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, bytes(12)), ""),
    "offsets that do not begin at 0": (tensors({"a": entry([1], 4, 8)}, bytes(8)), ""),
    "offsets reversed": (tensors({"a": entry([0], 4, 0)}, bytes(4)), ""),
    "offsets beyond the file": (tensors({"a": entry([2**40], 0, 2**42)}, bytes(8)), ""),
    "negative offsets": (tensors({"a": entry([1], -4, 0)}, bytes(4)), ""),
    "three offsets": (tensors({"a": {"dtype": "I32", "shape": [1], "data_offsets": [0, 4, 8]}}, bytes(8)), ""),
    "validation overflow": (tensors({"a": entry([2, 2**64 - 2], 0, 4)}, bytes(4)), ""),
    "validation overflow of bytes": (tensors({"a": entry([2**61], 0, 0)}), ""),
    "a negative shape": (tensors({"a": entry([-1], 0, 4)}, bytes(4)), ""),
    "a shape of floats": (tensors({"a": entry([1.0], 0, 4)}, bytes(4)), ""),
    "a shape of text": (tensors({"a": entry(["1"], 0, 4)}, bytes(4)), ""),
    "no shape": (tensors({"a": {"dtype": "I32", "data_offsets": [0, 4]}}, bytes(4)), "'a'"),
    "an unknown type": (tensors({"a": entry([1], 0, 4, "I33")}, bytes(4)), "I33"),
    "a field more": (tensors({"a": {**entry([1], 0, 4), "x": 1}}, bytes(4)), ""),
    "a tensor that is a number": (tensors({"a": 1}), ""),
    "metadata that is no text": (tensors({"__metadata__": {"a": 1}, "a": entry([1], 0, 4)}, bytes(4)), ""),
    "a name twice": (tensors(b'{"a":' + json.dumps(entry([1], 0, 4)).encode() + b',"a":' + json.dumps(entry([1], 0, 4)).encode() + b"}", bytes(4)), "duplicate"),
}  # fmt: skip


@pytest.mark.parametrize("what", SAFETENSORS)
# covers: loading S1, S2, D16
def test_safetensors_as_it_tests_itself(what: str, tmp_path: Path) -> None:
    content, words = SAFETENSORS[what]
    (tmp_path / "bad.safetensors").write_bytes(content)
    refused(tmp_path / "bad.safetensors", words)
    if what not in ("a name twice", "a field more"):  # which depend on its version
        with pytest.raises(Exception):  # noqa: B017 - its own classes
            safetensors.numpy.load(content)


def test_safetensors_that_it_takes(tmp_path: Path) -> None:
    header = {"__metadata__": {}, "t": entry([2, 2], 0, 16), "none": entry([2, 0, 3], 16, 16), "last": entry([1], 16, 20)}
    for text in (json.dumps(header).encode(), b"\t\n " + json.dumps(header).encode() + b"   "):
        content = tensors(text, np.arange(5, dtype="<i4").tobytes())
        (tmp_path / "good.safetensors").write_bytes(content)
        ds = ls.open(tmp_path / "good.safetensors")
        assert set(ds.names) == {"t", "none", "last"}
        assert np.asarray(ls.load(ds, array="t").shards[0].data).tolist() == [[0, 1], [2, 3]]
        assert np.asarray(ls.load(ds, array="last").shards[0].data).tolist() == [4]


# --- Arrow and Parquet


def arrow_file(**options: Any) -> bytes:
    table = pa.table({"x": np.arange(1000, dtype=np.int32), "l": [[1.0, 2.0]] * 1000})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=400)
    return sink.getvalue()


def footer_of(content: bytes) -> tuple[int, int]:
    """Where the footer begins and ends."""
    length = struct.unpack("<i", content[-10:-6])[0]
    return len(content) - 10 - length, len(content) - 10


def with_footer_length(length: int) -> Callable[[bytes], bytes]:
    return lambda c: c[:-10] + struct.pack("<i", length) + c[-6:]


ARROW: dict[str, Callable[[bytes], bytes]] = {
    "no trailing magic": lambda c: c[:-6] + b"ARROW2",
    "no leading magic": lambda c: b"ARROW2" + c[6:],
    "cut in half": lambda c: c[: len(c) // 2],
    "magic alone": lambda c: c[:6],
    "both magics alone": lambda c: c[:8] + c[-10:],
    "a footer of no bytes": with_footer_length(0),
    "a footer of negative length": with_footer_length(-5),
    "a footer longer than the file": with_footer_length(2**31 - 1),
    "a footer one byte longer": lambda c: with_footer_length(struct.unpack("<i", c[-10:-6])[0] + 1)(c),
    "a footer of zeros": lambda c: c[: footer_of(c)[0]] + bytes(footer_of(c)[1] - footer_of(c)[0]) + c[-10:],
    "a footer of ones": lambda c: c[: footer_of(c)[0]] + b"\xff" * (footer_of(c)[1] - footer_of(c)[0]) + c[-10:],
    "a footer whose root points away": lambda c: c[: footer_of(c)[0]] + b"\xff\xff\xff\x7f" + c[footer_of(c)[0] + 4 :],
}


@pytest.mark.parametrize("what", ARROW)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_as_it_tests_itself(what: str, compression: str | None, tmp_path: Path) -> None:
    content = ARROW[what](arrow_file(compression=compression))
    (tmp_path / "bad.arrow").write_bytes(content)
    refused(tmp_path / "bad.arrow")
    if what != "no leading magic":
        with pytest.raises((pa.ArrowInvalid, OSError)):
            pa.ipc.open_file(io.BytesIO(content)).read_all()


def test_every_number_of_an_arrow_footer_may_be_wild(tmp_path: Path) -> None:
    """Blocks, lengths and offsets of the metadata: each 8 bytes in turn becomes huge or negative."""
    content = arrow_file(compression="zstd")
    begin, end = footer_of(content)
    path = tmp_path / "wild.arrow"
    for wild in (b"\xff" * 8, b"\xff" * 7 + b"\x7f", struct.pack("<q", len(content)), struct.pack("<q", 2**40)):
        for at in range(begin & ~7, end, 8):
            path.write_bytes(content[:at] + wild + content[at + 8 :])
            try:
                ds = ls.open(path)
                for name in ds.names:
                    ls.load(ds, array=name)
            except (ls.DataError, ls.UsageError):
                pass


def parquet_file(**options: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"x": np.arange(1000, dtype=np.int32)}), sink, **options)
    return sink.getvalue()


PARQUET: dict[str, Callable[[bytes], bytes]] = {
    "no trailing magic": lambda c: c[:-4] + b"PAR2",
    "cut in half": lambda c: c[: len(c) // 2],
    "magic alone": lambda c: c[:4],
    "both magics": lambda c: b"PAR1PAR1",
    "a footer of no bytes": lambda c: c[:-8] + struct.pack("<I", 0) + c[-4:],
    "a footer longer than the file": lambda c: c[:-8] + struct.pack("<I", 2**31) + c[-4:],
    "a footer of zeros": lambda c: c[: -8 - struct.unpack("<I", c[-8:-4])[0]] + bytes(struct.unpack("<I", c[-8:-4])[0]) + c[-8:],
    "pages of zeros": lambda c: c[:4] + bytes(200) + c[204:],
    "pages of ones": lambda c: c[:4] + b"\xff" * 200 + c[204:],
}  # fmt: skip


@pytest.mark.parametrize("what", PARQUET)
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
# covers: loading Q6
def test_parquet_as_it_tests_itself(what: str, compression: str, tmp_path: Path) -> None:
    content = PARQUET[what](parquet_file(compression=compression, write_page_checksum=True))
    (tmp_path / "bad.parquet").write_bytes(content)
    refused(tmp_path / "bad.parquet")
