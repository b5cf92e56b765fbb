"""Random arrays, meshes and specs, and data sets on disk, for the tests. Everything follows from the seed."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import ml_dtypes
import numpy as np

NUMPY_TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
OTHER_TYPES = "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3 float8_e8m0fnu".split()

Array = np.ndarray[Any, Any]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(name) if name in NUMPY_TYPES else np.dtype(getattr(ml_dtypes, name))


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Any bits at all (NaN payloads, -0.0); bools are 0 or 1."""
    count = math.prod(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool).reshape(shape)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype=dtype).reshape(shape).copy()


def cut_rows(rng: np.random.Generator, rows: int, files: int) -> list[int]:
    """Bounds of `files` parts of any size, empty ones too."""
    return [0, *sorted(int(c) for c in rng.integers(0, rows + 1, files - 1)), rows]


def save_npy(directory: pathlib.Path, array: Array, bounds: list[int], order: str = "C", endian: str = "<") -> list[str]:
    paths = []
    for number, (begin, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        part = array[begin:end].astype(array.dtype.newbyteorder(endian), order="F" if order == "F" else "C")
        path = directory / f"shard_{number:04d}.npy"
        np.save(path, np.asfortranarray(part) if order == "F" else np.ascontiguousarray(part))
        paths.append(str(path))
    return paths


def save_raw(directory: pathlib.Path, array: Array, bounds: list[int], endian: str = "<", order: str = "C") -> list[str]:
    paths = []
    for number, (begin, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        part = array[begin:end]
        if endian == ">":
            part = part.byteswap()
        path = directory / f"shard_{number:04d}.bin"
        path.write_bytes(part.tobytes(order="F" if order == "F" else "C"))
        paths.append(str(path))
    return paths


def random_mesh(rng: np.random.Generator, devices: int = 8) -> dict[str, int]:
    """Axis sizes whose product is at most `devices`; axes of size 1, too."""
    sizes: list[int] = []
    left = devices
    for _ in range(int(rng.integers(1, 4))):
        size = int(rng.choice([s for s in (1, 2, 3, 4, 6, 8) if s <= left]))
        sizes.append(size)
        left //= size
    return {name: size for name, size in zip("xyz", sizes, strict=False)}


def random_spec(rng: np.random.Generator, axes: list[str], ndim: int) -> tuple[Any, ...]:
    """Some of the axes over some of the dimensions, in any order; trailing entries may be missing."""
    names = [str(n) for n in rng.permutation(axes)][: int(rng.integers(0, len(axes) + 1))]
    entries: list[list[str]] = [[] for _ in range(ndim)]
    for name in names:
        if ndim:
            entries[int(rng.integers(0, ndim))].append(name)
    spec: list[Any] = [None if not e else e[0] if len(e) == 1 and rng.random() < 0.7 else tuple(e) for e in entries]
    while spec and spec[-1] is None and rng.random() < 0.5:
        spec.pop()
    return tuple(spec)


def tiles(mesh: dict[str, int], spec: tuple[Any, ...], ndim: int) -> list[int]:
    """Tiles along each dimension."""
    out = [1] * ndim
    for d, entry in enumerate(spec):
        for name in [] if entry is None else [entry] if isinstance(entry, str) else entry:
            out[d] *= mesh[name]
    return out


def same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
