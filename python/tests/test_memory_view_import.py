"""MemoryView over memory of other libraries: what needs no driver."""

import gc
import weakref
from typing import Any

import loadstone as ls
import numpy as np
import pytest


class Producer:
    """Offers the CUDA array interface with any fields."""

    def __init__(self, **fields: Any) -> None:
        self.fields = {"data": (0x1000, False), "shape": (4,), "typestr": "<f4", "version": 3} | fields

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.fields


# covers: memory_view B1, B2
def test_numpy_bytes_and_times() -> None:
    array = np.arange(12, dtype="f4").reshape(3, 4)
    view = ls.MemoryView(obj=array)
    assert view.obj is array and view.ptr == array.ctypes.data and view.shape == (3, 4) and not view.readonly
    assert ls.MemoryView(b"abc").readonly and ls.MemoryView(b"").ptr == 0
    assert np.asarray(ls.MemoryView(np.arange(3).astype("M8[ns]"))).dtype == "M8[ns]"
    assert ls.MemoryView(array[::-1]).strides == (-16, 4)


# covers: memory_view B5, B6
def test_slices_inherit_and_chain() -> None:
    view = ls.MemoryView(Producer(data=(0x1000, True), stream=7))
    assert view.size == 16 and view.order == ("stream", 7) and view.readonly and not view.verified
    part = view.byte_slice(slice(-3, None))
    assert part.obj is view and part.order == view.order and part.readonly
    assert part.cai == {
        "shape": (3,), "typestr": "|u1", "data": (0x100D, True), "strides": None, "version": 3, "stream": 7,
    }  # fmt: skip
    assert part.byte_slice(slice(2, 1)).ptr == 0


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"typestr": ">i4"}, ValueError, "Big-endian data is not supported"),
        ({"typestr": "<M8[D]"}, ValueError, r"Unsupported dtype: M8\[D\]"),
        ({"mask": object()}, NotImplementedError, "Masked array-interface inputs are not supported"),
        ({"stream": 0}, ValueError, "stream 0"),
        ({"version": 4}, ValueError, "version 4"),
        ({"data": (None, False)}, TypeError, "integer"),
        ({"data": (-1, False)}, OverflowError, "convert"),
        ({"data": (0, False)}, ValueError, "pointer 0"),
        ({"shape": (2**40, 2**40)}, OverflowError, "1099511627776"),
        ({"shape": (-1,)}, ValueError, "negative"),
    ],
)
def test_refusals(fields: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ls.MemoryView(Producer(**fields))


def test_texts_of_byte_slice_and_constructor() -> None:
    view = ls.MemoryView(bytearray(8))
    with pytest.raises(TypeError, match="byte_slice requires a slice, not int"):
        view.byte_slice(0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="byte_slice only supports step=1 slices"):
        view.byte_slice(slice(0, 4, 2))
    with pytest.raises(ValueError, match="Data must be C-contiguous"):
        ls.MemoryView(np.zeros((4, 4))[:, ::2]).byte_slice(slice(2))
    with pytest.raises(ValueError, match="^MemoryView must be constructed from an object supporting the CUDA array int"):
        ls.MemoryView(3)


def test_lifetime_release_and_cycles() -> None:
    class Array(np.ndarray):
        pass

    array = np.arange(10).view(Array)
    producer, view = weakref.ref(array), ls.MemoryView(array)
    part, parent = view.byte_slice(slice(8)), weakref.ref(view)
    del array, view
    assert producer() is not None and parent() is not None
    del part
    assert producer() is None and parent() is None
    source = bytearray(b"abcdefgh")
    whole = ls.MemoryView(source)
    part, export = whole.byte_slice(slice(2, 6)), memoryview(whole)
    whole.release()
    whole.release()
    assert bytes(part) == b"cdef" and bytes(export) == b"abcdefgh"
    with pytest.raises(ValueError, match="released"):
        _ = whole.ptr
    cyclic: Any = Producer()
    cyclic.view = ls.MemoryView(cyclic)
    producer = weakref.ref(cyclic)
    del cyclic
    gc.collect()
    assert producer() is None


def test_spans() -> None:
    class Raises:
        ptr = 1

        @property
        def size(self) -> int:
            raise RuntimeError

    assert ls.is_span(ls.MemoryView(b"abc")) and not ls.is_span(None) and not ls.is_span(Raises())
    assert isinstance(ls.MemoryView(b"abc"), ls.Span)


def test_a_moved_source_is_not_exported() -> None:
    source = Producer()
    view = ls.MemoryView(source)
    source.fields["data"] = (0x2000, False)
    with pytest.raises(BufferError, match="moved"):
        _ = view.cai
