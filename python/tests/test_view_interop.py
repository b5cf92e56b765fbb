"""MemoryView and NumPy, JAX on the CPU and ml_dtypes: both ways, the same address, no copy."""

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import loadstone as ls
import ml_dtypes
import numpy as np
import pytest

NUMPY = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
TIMES = [f"{kind}8[{unit}]" for kind in "Mm" for unit in ("s", "ms", "us", "ns")]
ML = [
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


# covers: memory_view 3.3
@pytest.mark.parametrize("dtype", NUMPY + TIMES)
@pytest.mark.parametrize("shape", [(6,), (2, 3), (), (2, 0)])
def test_numpy_both_ways(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).astype("i8").astype(dtype).reshape(shape)
    view = ls.MemoryView(array)
    back = np.asarray(view)
    assert (view.shape, view.nbytes, view.itemsize) == (array.shape, array.nbytes, array.itemsize)
    assert back.dtype == array.dtype and back.shape == shape and back.tobytes() == array.tobytes()
    if array.size:
        assert back.ctypes.data == view.ptr == array.ctypes.data


# covers: memory_view B5
def test_read_only_numpy_stays_so() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    view = ls.MemoryView(array)
    assert view.readonly and not np.asarray(view).flags.writeable and not np.from_dlpack(view).flags.writeable
    with pytest.raises(BufferError):
        view.__dlpack__()
    with pytest.raises(BufferError):
        ls.MemoryView(array, writable=True)


# covers: memory_view B8
@pytest.mark.parametrize("key", [np.s_[::2], np.s_[:, ::2], np.s_[::-1], np.s_[1:, 1:], np.s_[..., None]])
def test_strides_survive(key: Any) -> None:
    array = np.arange(24, dtype="i4").reshape(4, 6)[key]
    back = np.asarray(ls.MemoryView(array))
    assert back.ctypes.data == array.ctypes.data and np.array_equal(back, array)


# covers: memory_view B3, 3.3
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "float16", "float32", "complex64", "bfloat16"])
def test_jax_both_ways(dtype: str) -> None:
    array = jnp.arange(6).astype(dtype).reshape(2, 3)
    view = ls.MemoryView(array)
    assert view.ptr == array.unsafe_buffer_pointer() and view.shape == (2, 3)
    aligned = jnp.asarray(array)
    again = jax.dlpack.from_dlpack(ls.MemoryView(aligned, writable=True))
    assert again.unsafe_buffer_pointer() == aligned.unsafe_buffer_pointer() and again.dtype == array.dtype


# covers: memory_view 1.5
def test_an_export_keeps_the_source() -> None:
    class Array(np.ndarray):
        pass

    gc.disable()
    try:
        array = np.arange(10).view(Array)
        source = weakref.ref(array)
        export = np.from_dlpack(ls.MemoryView(array))
        del array
        assert source() is not None and export.sum() == 45
        del export
        assert source() is None
    finally:
        gc.enable()


# covers: memory_view 1.2
@pytest.mark.parametrize("name", ML)
def test_ml_dtypes_are_named_not_guessed(name: str) -> None:
    array = np.arange(4).astype(getattr(ml_dtypes, name))
    with pytest.raises(ValueError, match="^Unsupported dtype"):
        ls.MemoryView(array)
    back = np.asarray(ls.MemoryView(array, dtype=name))
    assert back.dtype == array.dtype and back.ctypes.data == array.ctypes.data and back.tobytes() == array.tobytes()
