"""Element types between loadstone's names and NumPy's (and ml_dtypes') types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from loadstone._core import MemoryView
from loadstone._errors import UsageError

_NUMPY = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)


def to_numpy(name: str) -> np.dtype[Any]:
    """The type with loadstone's name; UsageError when neither NumPy nor ml_dtypes has it."""
    scalar: Any = name if name in _NUMPY else getattr(ml_dtypes, name, None)
    if scalar is None:
        raise UsageError(f"neither NumPy nor ml_dtypes has a type for {name}")
    dtype: np.dtype[Any] = np.dtype(scalar)
    return dtype


def from_numpy(dtype: np.dtype[Any]) -> str:
    """Loadstone's name, with '>' before the NumPy code when the type is big-endian."""
    if dtype.byteorder == ">" and dtype.kind != "V":
        return dtype.str
    return dtype.name


def from_user(dtype: object) -> str:
    """What a user gives for a dtype: text goes through as it is, types by their names."""
    if isinstance(dtype, str):
        return dtype
    try:
        return from_numpy(np.dtype(dtype))  # type: ignore[call-overload]
    except TypeError as error:
        raise UsageError(f"{dtype!r} is not a dtype") from error


def as_array(view: MemoryView, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """view as a NumPy array that shares its bytes."""
    own = view.dtype
    if own.itemsize * 8 != _bits(view) and view.nbytes:
        raise UsageError(f"elements of {own.name} are packed in memory: use view.bytes()")
    if own.name in _NUMPY:
        array: np.ndarray[Any, Any] = np.asarray(memoryview(view))
    else:
        array = np.asarray(memoryview(view._unsigned())).view(own)
    if dtype is not None and np.dtype(dtype) != own:
        if copy is False:
            raise ValueError(f"an array of {np.dtype(dtype).name} from a view of {own.name} needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def _bits(view: MemoryView) -> int:
    elements = 1
    for extent in view.shape:
        elements *= extent
    return view.nbytes * 8 // elements if elements else 0


def host_array(obj: object, what: str) -> np.ndarray[Any, Any]:
    """obj's own memory as a NumPy array, never a copy. TypeError when it offers none."""
    if isinstance(obj, np.ndarray):
        return obj
    if isinstance(obj, MemoryView):
        return as_array(obj)
    try:
        return np.asarray(memoryview(obj))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        pass
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        return np.asarray(obj, copy=False)
    raise TypeError(f"{what}: expected an array in host memory, found {type(obj).__name__}")
