"""MemoryView: what the tests of pylibcudf's gpumemoryview and Span ask, made on our class without a GPU."""

import gc
import weakref
from typing import Any

import loadstone as ls
import numpy as np
import pytest

ARRAYS = [(size, dtype) for size in (0, 1, 1000, 1024, 10000) for dtype in ("u1", "i2", "f4", "f8", "f16")]
UNITS = ("s", "ms", "us", "ns")
DTYPES = [
    *("|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f4", "<f8", "|b1"),
    *(f"<{kind}8[{unit}]" for kind in "Mm" for unit in UNITS),
]


class Producer:
    """Offers the CUDA array interface with exactly these fields."""

    def __init__(self, **fields: Any) -> None:
        self.__cuda_array_interface__ = fields


class Buffer:
    """What rmm.DeviceBuffer offers: bytes by version 0, here over host memory."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host
        self.__cuda_array_interface__ = {
            "data": (host.ctypes.data if host.size else 0, False),
            "shape": (host.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 0,
        }


class Span:
    ptr, size = 0xDEADBEEF, 256


# covers: memory_view R1, R2, R3
@pytest.mark.parametrize(("size", "dtype"), ARRAYS)
def test_views_of_a_device_buffer(size: int, dtype: str) -> None:
    host = np.arange(size).astype(dtype)
    view = ls.MemoryView(Buffer(host))
    assert len(view) == view.nbytes == view.size == host.nbytes
    cai = view.__cuda_array_interface__
    assert "strides" in cai and cai["strides"] is None
    assert cai["shape"] == host.view("u1").shape and cai["typestr"] == "|u1"


# covers: memory_view R4
@pytest.mark.parametrize(("size", "dtype"), ARRAYS)
@pytest.mark.parametrize("bounds", [(1, 3), (None, 2), (3, None), (2, 2), (0, 10000), (-3, None), (5, 1), (-99999, -1)])
def test_slices_are_those_of_the_bytes(size: int, dtype: str, bounds: tuple[int | None, int | None]) -> None:
    host = np.arange(size).astype(dtype)
    expected = host.tobytes()[slice(*bounds)]
    assert bytes(ls.MemoryView(host.view("u1")).byte_slice(slice(*bounds))) == expected
    part = ls.MemoryView(Buffer(host)).byte_slice(slice(*bounds))
    start = slice(*bounds).indices(host.nbytes)[0]
    assert part.nbytes == len(expected) and part.ptr == (host.ctypes.data + start if expected else 0)


# covers: memory_view R5
def test_a_slice_is_what_from_array_takes() -> None:
    cai = ls.MemoryView(Buffer(np.arange(10.0))).byte_slice(slice(8, 24)).__cuda_array_interface__
    assert isinstance(cai["shape"], tuple) and cai["shape"] == (16,) and cai["typestr"] == "|u1"
    assert isinstance(cai["data"][0], int) and cai["strides"] is None


# covers: memory_view R6, R7
@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        (0, TypeError, "^byte_slice requires a slice, not int$"),
        ("ab", TypeError, "^byte_slice requires a slice, not str$"),
        (slice(0, 10, 2), ValueError, "^byte_slice only supports step=1 slices$"),
        (slice(None, None, -1), ValueError, "^byte_slice only supports step=1 slices$"),
        (slice(0, 10, 0), ValueError, "^slice step cannot be zero$"),
        (slice("a", None), TypeError, "__index__"),
    ],
)
def test_byte_slice_refuses(argument: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ls.MemoryView(Buffer(np.arange(10))).byte_slice(argument)


# covers: memory_view R8
def test_a_slice_keeps_the_chain_and_its_end_frees_it() -> None:
    gc.disable()
    try:
        source = Buffer(np.arange(10))
        view = ls.MemoryView(source)
        part = view.byte_slice(slice(2, 40)).byte_slice(slice(1, 3))
        memory, parent = weakref.ref(source), weakref.ref(view)
        del source, view
        assert memory() is not None and parent() is not None
        del part
        assert memory() is None and parent() is None
    finally:
        gc.enable()


# covers: memory_view R9, R10, R11, R12, R13, R14
def test_spans() -> None:
    class NoSize:
        ptr = 1

    class NoPtr:
        size = 1

    for fine in (Span(), ls.MemoryView(Buffer(np.arange(4)))):
        assert ls.is_span(fine) and isinstance(fine, ls.Span)
    for bad in (None, NoSize(), NoPtr()):
        assert not ls.is_span(bad) and not isinstance(bad, ls.Span)
    assert (Span().ptr, Span().size) == (0xDEADBEEF, 256)


# covers: memory_view R19
@pytest.mark.parametrize("typestr", DTYPES)
@pytest.mark.parametrize("strides", ["absent", None, "explicit"])
@pytest.mark.parametrize("version", [0, 1, 2, 3, None])
def test_every_dtype_version_and_form_of_strides(typestr: str, strides: str | None, version: int | None) -> None:
    itemsize = np.dtype(typestr).itemsize
    fields = {"data": (0x1000, False), "shape": (2, 3), "typestr": typestr}
    fields |= {} if strides == "absent" else {"strides": (3 * itemsize, itemsize) if strides else None}
    fields |= {} if version is None else {"version": version}
    view = ls.MemoryView(Producer(**fields))
    assert view.cai == {
        "data": (0x1000, False), "shape": (2, 3), "strides": None, "typestr": typestr, "version": 3,
    }  # fmt: skip
    assert len(view) == 2 and view.nbytes == 6 * itemsize and view.itemsize == itemsize and view.contiguous


# covers: memory_view R20, R24
@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"mask": object()}, NotImplementedError, "^Masked array-interface inputs are not supported"),
        ({"typestr": ">i4"}, ValueError, "^Big-endian data is not supported"),
        ({"typestr": "<f16"}, ValueError, "^Unsupported dtype: f16"),
        ({"typestr": "|V8"}, ValueError, "^Unsupported dtype: V8"),
        ({"typestr": "<M8[D]"}, ValueError, r"^Unsupported dtype: M8\[D\]"),
    ],
)
def test_refused_interfaces(fields: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ls.MemoryView(Producer(**({"data": (0x1000, False), "shape": (4,), "typestr": "|u1", "version": 3} | fields)))


# covers: memory_view R21
@pytest.mark.parametrize("shape", [(24,), (4, 6), (2, 3, 4), (2, 1, 3, 4)])
def test_fortran_order_states_its_strides(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, "f4", order="F")
    view = ls.MemoryView(Producer(data=(0x1000, False), shape=shape, strides=array.strides, typestr="<f4", version=3))
    assert view.shape == shape and view.contiguous == (len(shape) == 1)
    assert view.cai["strides"] == (None if len(shape) == 1 else array.strides)
    if len(shape) > 1:
        assert not ls.is_span(view)
        with pytest.raises(ValueError, match="^Data must be C-contiguous"):
            view.byte_slice(slice(1))


# covers: memory_view R25
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_empty_arrays(shape: tuple[int, ...]) -> None:
    for source in (np.zeros(shape), Producer(data=(0, False), shape=shape, typestr="<f8", version=3)):
        view = ls.MemoryView(source)
        assert view.shape == shape and view.ptr == view.nbytes == 0 and view.contiguous and not view.verified
