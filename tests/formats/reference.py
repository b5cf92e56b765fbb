"""One array out of a file, by the format's own package."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import safetensors.numpy
import zarr

Array = npt.NDArray[Any]
EXTENSIONS = {
    "npy": ".npy",
    "npz": ".npz",
    "raw": ".bin",
    "safetensors": ".safetensors",
    "arrow": ".arrow",
    "parquet": ".parquet",
    "hdf5": ".h5",
    "zarr": ".zarr",
    "zarr2": ".zarr",
}


def column(table: Any, name: str) -> Array:
    """A column of numbers or of lists of fixed lengths."""
    data, shape = table.column(name).combine_chunks(), [table.num_rows]
    while pa.types.is_fixed_size_list(data.type):
        shape.append(data.type.list_size)
        data = data.flatten()
    if pa.types.is_boolean(data.type):
        data = data.cast(pa.uint8())
        return np.asarray(data.to_numpy().reshape(shape).astype(bool))
    return np.asarray(data.to_numpy(zero_copy_only=False).reshape(shape))


def read(format: str, path: Path, name: str = "data") -> Array:
    """`name` is the array's inside the file; "" = the store's root."""
    if format == "npy":
        return np.asarray(np.load(path))
    if format == "npz":
        with np.load(path) as archive:
            return np.asarray(archive[name])
    if format == "safetensors":
        return np.asarray(safetensors.numpy.load_file(path)[name])
    if format == "arrow":
        return column(pyarrow.feather.read_table(path, memory_map=False), name)
    if format == "parquet":
        return column(pyarrow.parquet.ParquetFile(path, page_checksum_verification=True).read(), name)
    if format == "hdf5":
        with h5py.File(path) as file:
            return np.asarray(file[name][()])
    if format in ("zarr", "zarr2"):
        found: Any = zarr.open(str(path), mode="r")
        return np.asarray(found[name][...] if name else found[...])
    raise AssertionError(format)
