"""MemoryView: what loading needs of requirements/memory_view.md."""

import copy
import ctypes
import gc
import pathlib
import pickle
import weakref

import loadstone as ls
import ml_dtypes
import numpy as np
import pytest


@pytest.fixture
def view(tmp_path: pathlib.Path) -> ls.MemoryView:
    np.save(tmp_path / "a.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
    return ls.load(ls.open(tmp_path / "a.npy")).shards[0].data


def loaded(tmp_path: pathlib.Path, array: np.ndarray, dtype: str | None = None) -> ls.MemoryView:
    np.save(tmp_path / "x.npy", array)
    return ls.load(ls.open(tmp_path / "x.npy", dtype=dtype)).shards[0].data


def test_attributes(view: ls.MemoryView) -> None:
    assert view.shape == (3, 4) and view.strides == (16, 4) and view.ndim == 2
    assert view.dtype == np.float32 and view.itemsize == 4 and view.nbytes == view.size == 48
    assert view.device == (1, 0) and not view.readonly and view.contiguous
    assert view.ptr and view.ptr % 64 == 0
    assert len(view) == 3
    assert repr(view) == "MemoryView(shape=(3, 4), dtype=float32, device=cpu:0, readonly=False)"
    with pytest.raises(AttributeError):
        view.shape = (12,)  # type: ignore[misc]


def test_numpy_shares_memory_and_writes(view: ls.MemoryView) -> None:
    array = np.asarray(view)
    assert array.dtype == np.float32 and array.flags.writeable and array.ctypes.data == view.ptr
    array[1, 2] = 99
    assert np.asarray(view)[1, 2] == 99
    assert (ctypes.c_float * 12).from_address(view.ptr)[6] == 99
    assert np.array(view, copy=True).ctypes.data != view.ptr
    assert np.asarray(view, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError):
        np.asarray(view, dtype=np.float64, copy=False)


def test_buffer_protocol(view: ls.MemoryView) -> None:
    m = memoryview(view)
    assert m.format == "f" and m.shape == (3, 4) and m.strides == (16, 4) and not m.readonly and m.c_contiguous
    assert m.nbytes == 48 and m.obj is view
    assert bytes(view) == np.asarray(view).tobytes()
    m.release()
    assert np.frombuffer(view, dtype=np.uint8).size == 48


TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", TYPES)
def test_formats_give_numpys_own_types(name: str, tmp_path: pathlib.Path) -> None:
    array = np.ones((2, 3), dtype=name)
    view = loaded(tmp_path, array)
    assert view.dtype == array.dtype and memoryview(view).format == memoryview(array).format
    back = np.asarray(view)
    assert back.dtype == array.dtype and back.dtype.char == array.dtype.char and (back == array).all()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_ml_dtypes_arrive_through_array(name: str, tmp_path: pathlib.Path) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    array = np.array([[1, 2, 0.5]], dtype=dtype)
    array.tofile(tmp_path / "x.bin")
    view = ls.load(ls.open(tmp_path / "x.bin", raw=True, dtype=name, row_shape=3)).shards[0].data
    assert view.dtype == dtype
    with pytest.raises(BufferError, match="no format"):
        memoryview(view)
    back = np.asarray(view)
    assert back.dtype == dtype and back.flags.writeable and back.ctypes.data == view.ptr and (back == array).all()


# covers: memory_view B3, B4
def test_dlpack(view: ls.MemoryView) -> None:
    assert view.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(view)
    assert array.ctypes.data == view.ptr and array.flags.writeable
    assert "dltensor_versioned" in repr(view.__dlpack__(max_version=(1, 3)))
    assert '"dltensor"' in repr(view.__dlpack__()) and '"dltensor"' in repr(view.__dlpack__(max_version=(0, 8)))
    assert view.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="cannot be exported"):
        view.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="stream=None"):
        view.__dlpack__(stream=1)
    copied = np.from_dlpack(view, copy=True)
    assert copied.ctypes.data != view.ptr and (copied == array).all()


def test_dlpack_of_another_cpu_device_says_cpu_0(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(8))
    shards = ls.load(ls.open(tmp_path), ls.Sharding(ls.Mesh({"x": 2}), ("x",))).shards
    assert shards[1].data.device == (1, 1) and shards[1].data.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(shards[1].data).tolist() == [4, 5, 6, 7]


# covers: memory_view B5
def test_read_only_stays_read_only() -> None:
    from loadstone._core import view_array

    array = np.arange(6)
    array.flags.writeable = False
    view = view_array(array)
    assert view.readonly and view.ptr == array.ctypes.data
    assert not np.asarray(view).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        view.__dlpack__()
    assert not np.from_dlpack(view).flags.writeable
    with pytest.raises(TypeError, match="not writable"):
        (ctypes.c_char * 48).from_buffer(view)


def test_strided_views() -> None:
    from loadstone._core import view_array

    array = np.arange(24).reshape(4, 6)[::-1, 1::2]
    view = view_array(array)
    assert not view.contiguous and view.strides == array.strides
    assert (np.asarray(view) == array).all() and np.asarray(view).ctypes.data == array.ctypes.data
    with pytest.raises(BufferError, match="contiguous"):
        bytes(np.frombuffer(view))
    with pytest.raises(ValueError, match="C-contiguous"):
        view.bytes()
    with pytest.raises(AttributeError):
        _ = view.size
    fortran = view_array(np.asfortranarray(np.arange(6).reshape(2, 3)))
    assert memoryview(fortran).f_contiguous
    bf16 = view_array(np.arange(6).astype(ml_dtypes.bfloat16)[::2])
    assert np.asarray(bf16).astype(int).tolist() == [0, 2, 4]


def test_empty_and_scalar_views(tmp_path: pathlib.Path) -> None:
    empty = loaded(tmp_path, np.zeros((0, 3), np.int16))
    assert empty.ptr == 0 and empty.nbytes == 0 and len(empty) == 0
    assert np.asarray(empty).shape == (0, 3) and np.from_dlpack(empty).shape == (0, 3)
    assert empty.bytes().shape == (0,)
    scalar = loaded(tmp_path, np.array(7, np.int16))
    assert scalar.shape == () and scalar.nbytes == 2 and int(np.asarray(scalar)) == 7
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        len(scalar)


# covers: memory_view B14
def test_identity_hash_and_pickle(view: ls.MemoryView) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(view)
    assert view == view and view != view.bytes()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle 'MemoryView' object"):
            attempt(view)
    with pytest.raises(TypeError):
        ls.MemoryView()
    assert not hasattr(view, "__iter__") and not hasattr(view, "__getitem__")


def test_bytes(view: ls.MemoryView) -> None:
    raw = view.bytes()
    assert raw.shape == (48,) and raw.dtype == np.uint8 and raw.ptr == view.ptr
    assert np.asarray(raw).tobytes() == np.asarray(view).tobytes()


def test_memory_lives_as_long_as_any_user(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(1000))
    placement = ls.load(ls.open(tmp_path))
    view = placement.shards[0].data
    seen = weakref.ref(view)
    array = np.asarray(view)
    capsule = np.from_dlpack(view)
    del view, placement
    gc.collect()
    assert seen() is not None, "the array keeps its exporter"
    assert array.sum() == capsule.sum() == 499500
    del array
    assert seen() is None, "freed by reference count"
    assert capsule.sum() == 499500, "the DLPack export keeps the memory by itself"


def test_imported_arrays_are_kept_and_freed() -> None:
    from loadstone._core import view_array

    class Array(np.ndarray):
        pass

    array = np.arange(10).view(Array)
    seen = weakref.ref(array)
    view = view_array(array)
    del array
    gc.collect()
    assert seen() is not None and np.asarray(view).sum() == 45
    del view
    assert seen() is None


def test_arrays_that_cannot_be_used_in_place() -> None:
    from loadstone._core import view_array

    with pytest.raises(ValueError, match="big-endian"):
        view_array(np.arange(3, dtype=">i4"))
    with pytest.raises(ValueError, match="packed|int4"):
        view_array(np.zeros(3, ml_dtypes.int4))
    with pytest.raises(ValueError):
        view_array(np.zeros(3, "M8[s]"))
    with pytest.raises(ValueError, match="strides"):
        view_array(np.zeros(3, [("a", "i4"), ("b", "i1")])["a"])
