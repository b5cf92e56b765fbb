"""HDF5 against h5py, which wrote the files."""

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import h5py
import loadstone as ls
import numpy as np
import numpy.typing as npt
import pytest
from loadstone_cli import BINARY
from placed import check_placed

Array = npt.NDArray[Any]
DTYPES = ["<f4", ">f4", ">i8", "<i2", "u1", "bool", "<c8", ">c16", "<f2", "f8"]
FILTERS: list[dict[str, Any]] = [
    {},
    {"compression": None},
    {"compression": "gzip"},
    {"compression": "gzip", "shuffle": True},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
    {"fletcher32": True},
    {"shuffle": True},
    {"scaleoffset": 0},
]


def random_array(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    raw = np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), "u1")
    return ((raw % 2).astype(bool) if dtype == "bool" else raw.view(dtype)).reshape(shape)


# covers: loading H1, H3, H5
@pytest.mark.parametrize("seed", range(40))
def test_random_datasets_equal_what_h5py_wrote(tmp_path: Path, seed: int) -> None:
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    shape = tuple(int(n) for n in rng.integers(1, 40, pick.randint(1, 3)))
    options = dict(FILTERS[seed % len(FILTERS)])
    dtype = "<i4" if "scaleoffset" in options else pick.choice(DTYPES)
    want = random_array(rng, dtype, shape)
    if options:
        options["chunks"] = tuple(int(rng.integers(1, n + 1)) for n in shape)
    path = tmp_path / "a.h5"
    libver = "latest" if seed % 2 else "earliest"
    with h5py.File(path, "w", userblock_size=pick.choice([0, 512, 2048]), libver=libver) as file:
        file.create_dataset("g/x", data=want, **options)
    check_placed(ls.open(str(path)), None, want, {"x": 3})


# covers: loading H6
def test_filter_masks_and_chunks_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (10, 4), "<i4", chunks=(3, 4), compression="gzip", fillvalue=-7)
        made[:3] = 1
        made.id.write_direct_chunk((3, 0), np.full((3, 4), 2, "<i4").tobytes(), filter_mask=1)
    want = np.full((10, 4), -7, "<i4")  # h5py itself fails to read a chunk whose mask leaves out deflate
    want[:3], want[3:6] = 1, 2
    placement = ls.load(ls.open(str(path)), ls.Sharding(ls.Mesh({"x": 1}), ("x",)))
    assert np.array_equal(np.asarray(placement.shards[0].data), want)
    assert any("2 of 4 chunks" in note for note in ls.open(str(path)).notes)


def test_without_a_library_the_error_says_what_to_do(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
    done = subprocess.run(
        [str(BINARY), "inspect", str(tmp_path / "a.h5")],
        env={**os.environ, "LOADSTONE_HDF5_LIBRARY": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "LOADSTONE_HDF5_LIBRARY" in done.stderr and "pip install h5py" in done.stderr
