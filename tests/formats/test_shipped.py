"""Files that come with the packages, as they are: each array equals what the package reads, or is refused by name."""

import warnings
from pathlib import Path

import h5py
import loadstone as ls
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import scipy
from placed import check_placed


def shipped(package: object, *patterns: str) -> list[Path]:
    folder = Path(str(getattr(package, "__file__"))).parent
    return sorted(path for pattern in patterns for path in folder.rglob(pattern))


# covers: loading R3
def test_numpy_and_scipy() -> None:
    loaded = refused = 0
    for path in shipped(np, "*.npy") + shipped(scipy, "*.npy"):
        try:
            ds = ls.open(path)
        except ls.DataError as error:
            assert path.name in str(error)
            refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a header of Python 2
            want = np.load(path, encoding="bytes")
        check_placed(ds, None, want, {"x": 3})
        loaded += 1
    assert loaded >= 3 and refused >= 2, "objects are refused"


# covers: loading R3
def test_pyarrow() -> None:
    loaded = 0
    for path in shipped(pa, "*.parquet", "*.feather"):
        table = pyarrow.feather.read_table(path) if path.suffix == ".feather" else pyarrow.parquet.read_table(path)
        try:
            ds = ls.open(path)
        except ls.DataError as error:
            assert path.name in str(error)
            continue
        for name in ds.names:
            check_placed(ds, name, table[name].to_numpy(), {"x": 2})
            loaded += 1
    assert loaded >= 8


# covers: loading R3, H10
def test_h5py() -> None:
    loaded = 0
    for path in shipped(h5py, "*.h5"):
        try:
            ds = ls.open(path)
        except ls.DataError as error:
            assert path.name in str(error)
            continue
        with h5py.File(path) as file:
            for name in ds.names:
                check_placed(ds, name, np.asarray(file[name][()]), {"x": 1})
                loaded += 1
    assert loaded >= 1
