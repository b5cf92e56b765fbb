"""MemoryView: its class, attribute by attribute, and where it differs from gpumemoryview on purpose."""

import copy
import pickle
import sys
import types
import warnings
import weakref
from typing import Any

import loadstone as ls
import numpy as np
import pytest

FIELDS = {"data": (0x1000, False), "shape": (2, 3), "typestr": "<i4", "version": 3}
ATTRIBUTES = "ptr obj cai nbytes size readonly dtype itemsize shape strides ndim contiguous device order verified"


class Producer:
    def __init__(self, fields: Any) -> None:
        self.__cuda_array_interface__ = fields


def over(**fields: Any) -> ls.MemoryView:
    return ls.MemoryView(Producer(FIELDS | fields))


# covers: memory_view 1.1
def test_any_mapping_serves_and_is_read_once() -> None:
    reads = []

    class Counted:
        @property
        def __cuda_array_interface__(self) -> Any:
            reads.append(1)
            return types.MappingProxyType(FIELDS)

    view = ls.MemoryView(Counted())
    assert view.ptr == 0x1000 and len(reads) == 1


# covers: memory_view 1.1
def test_a_failing_property_passes_through_or_leads_on() -> None:
    class Fails:
        def __init__(self, error: Exception) -> None:
            self.error = error

        @property
        def __cuda_array_interface__(self) -> Any:
            raise self.error

    with pytest.raises(RuntimeError, match="mine"):
        ls.MemoryView(Fails(RuntimeError("mine")))
    for error in (KeyError("fp8"), AttributeError("not here")):
        with pytest.raises(ValueError, match="^MemoryView must be constructed from an object supporting the CUDA arr"):
            ls.MemoryView(Fails(error))


# covers: memory_view 1.2
@pytest.mark.parametrize("name", ATTRIBUTES.split())
def test_attributes_are_read_only(name: str) -> None:
    view = over()
    getattr(view, name)
    with pytest.raises(AttributeError):
        setattr(view, name, 1)


# covers: memory_view 1.2
def test_one_view_attribute_by_attribute() -> None:
    source = Producer(FIELDS)
    view = ls.MemoryView(obj=source)
    assert view.obj is source and view.ptr == view.cai["data"][0] == 0x1000
    assert (len(view), view.nbytes, view.size, view.itemsize, view.ndim) == (2, 24, 24, 4, 2)
    assert view.cai == view.__cuda_array_interface__ == FIELDS | {"strides": None}
    assert view == view and view != ls.MemoryView(source)
    assert weakref.ref(view)() is view
    assert not hasattr(view, "__getitem__") and not hasattr(view, "__iter__")
    assert "MemoryView" in repr(view)


# covers: memory_view 1.2
def test_a_strided_view_has_no_size() -> None:
    view = over(strides=(4, 8))
    assert not view.contiguous and view.nbytes == 24 and view.cai["strides"] == (4, 8)
    with pytest.raises(AttributeError, match="size"):
        _ = view.size


# covers: memory_view 1.3
def test_slices_of_a_subclass_are_plain_views() -> None:
    class Mine(ls.MemoryView):
        pass

    view = Mine(Producer(FIELDS))
    part = view.byte_slice(slice(4, 8))
    assert type(part) is ls.MemoryView and part.obj is view and part.cai["data"] == (0x1004, False)


# covers: memory_view 1.4
def test_is_span_never_raises() -> None:
    class Bad:
        ptr = 1

        @property
        def size(self) -> int:
            raise RuntimeError

    class Anything:
        def __getattr__(self, name: str) -> int:
            return 1

    assert not ls.is_span(Bad()) and ls.is_span(Anything()) and not ls.is_span(over(strides=(4, 8)))


# covers: memory_view 1.5, B14
def test_a_dropped_slice_gives_its_references_back() -> None:
    view = over()
    before = sys.getrefcount(view)
    parts = [view.byte_slice(slice(i)) for i in range(24)]
    assert sys.getrefcount(view) == before + 24
    parts.clear()
    assert sys.getrefcount(view) == before


# covers: memory_view 1.6
@pytest.mark.parametrize("key", ["data", "shape", "typestr"])
def test_a_missing_key_is_a_key_error(key: str) -> None:
    with pytest.raises(KeyError, match=key):
        ls.MemoryView(Producer({k: v for k, v in FIELDS.items() if k != key}))


# covers: memory_view 1.6
@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"data": (None, False)}, TypeError, "integer"),
        ({"data": (-1, False)}, OverflowError, "negative"),
        ({"data": (2**64, False)}, OverflowError, "int"),
        ({"version": 4}, ValueError, "4"),
        ({"stream": 0}, ValueError, "0"),
        ({"stream": -1}, ValueError, "-1"),
        ({"data": (0, False)}, ValueError, "0"),
        ({"shape": (2, -3)}, ValueError, "-3"),
        ({"shape": (1,) * 65}, ValueError, "65"),
        ({"shape": (2**40, 2**40)}, OverflowError, str(2**40)),
    ],
)
def test_refusals_by_type(fields: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        over(**fields)
    with pytest.raises(TypeError):
        ls.MemoryView(Producer([1, 2]))


# covers: memory_view 1.6, 1.8
def test_no_hash_pickle_or_copy() -> None:
    view = over()
    with pytest.raises(TypeError, match="^unhashable type"):
        hash(view)
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="^cannot pickle 'MemoryView' object"):
            copier(view)


# covers: memory_view 1.7
def test_half_and_complex_are_ours_in_addition() -> None:
    for typestr in ("<f2", "<c8", "<c16"):
        assert over(typestr=typestr).cai["typestr"] == typestr


# covers: memory_view 1.8
def test_a_scalar_has_one_element() -> None:
    view = over(shape=())
    assert view.nbytes == view.itemsize == 4 and view.shape == () and view.contiguous
    with pytest.raises(TypeError, match="^len\\(\\) of unsized object$"):
        len(view)


# covers: memory_view 1.8
def test_the_interface_is_a_fresh_dict() -> None:
    fields = FIELDS | {"shape": (2, 3)}
    view = ls.MemoryView(Producer(fields))
    view.cai["data"] = (1, True)
    assert view.cai is not fields and view.cai["data"] == (0x1000, False) and view.ptr == 0x1000


# covers: memory_view 1.8
def test_construction_happens_once() -> None:
    view = over()
    with warnings.catch_warnings(), pytest.raises(TypeError):
        warnings.simplefilter("ignore")  # nanobind says so before we do
        view.__init__(Producer(FIELDS))  # type: ignore[misc]
    with pytest.raises(TypeError):
        _ = ls.MemoryView.__new__(ls.MemoryView)
    assert view.ptr == 0x1000


# covers: memory_view 1.8
def test_flag_stream_and_emptiness_are_kept() -> None:
    view = over(data=(0x1000, True), stream=2)
    part = view.byte_slice(slice(4, 4))
    assert view.readonly and part.readonly and view.cai["stream"] == 2 and part.ptr == part.cai["data"][0] == 0
