"""HDF5 against h5py, which wrote the files."""

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
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
    {"compression": "lzf"},
    {"compression": "lzf", "shuffle": True, "fletcher32": True},
    {**hdf5plugin.LZ4()},
    {**hdf5plugin.LZ4(nbytes=64), "shuffle": True, "fletcher32": True},
    {**hdf5plugin.Zstd(), "shuffle": True},
    {**hdf5plugin.BZip2(), "fletcher32": True},
    *[
        {**hdf5plugin.Blosc(cname=name, shuffle=shuffle)}
        for name, shuffle in zip(["blosclz", "lz4", "lz4hc", "zlib", "zstd"], [0, 1, 2, 1, 2])
    ],
]
STRATEGIES = ["auto", "global", "per_device", "per_process"]
OLD_LIBRARY = "libhdf5_serial.so.103"


def random_array(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    raw = np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), "u1")
    return ((raw % 2).astype(bool) if dtype == "bool" else raw.view(dtype)).reshape(shape)


# covers: loading H1, H3, H5
@pytest.mark.parametrize("seed", range(114))
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
    spec = tuple(pick.sample(["x", "y"] + [None] * want.ndim, want.ndim))
    check_placed(ls.open(str(path)), None, want, {"x": 3, "y": 2}, spec, strategy=pick.choice(STRATEGIES))


# covers: loading H5
@pytest.mark.parametrize("compression", [None, 3])
def test_packed_chunks_are_decoded_by_us_and_not_by_libhdf5(tmp_path: Path, compression: int | None) -> None:
    want = np.arange(4000, dtype="<i4").reshape(100, 40)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("own", data=want, chunks=(16, 16), **hdf5plugin.Blosc())
        file.create_dataset("lib", data=want, chunks=(16, 16), scaleoffset=0, compression=compression)
    assert not any("libhdf5" in note for note in ls.open(tmp_path / "a.h5", array="own").notes)
    assert any("read by libhdf5" in note for note in ls.open(tmp_path / "a.h5", array="lib").notes)


# covers: loading H2, R16
@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"scaleoffset": 0}])
def test_bytes_of_whole_chunks_are_counted_and_each_is_decoded_once(tmp_path: Path, options: dict[str, Any]) -> None:
    want = np.arange(6000, dtype="<i4").reshape(100, 60)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", data=want, chunks=(30, 60), **options)
        stored = [made.id.get_chunk_info(k).size for k in range(made.id.get_num_chunks())]
    catalog = ls.open(tmp_path / "a.h5")
    # Four devices cut the chunks of 30 rows at 25, 50 and 75: two of the four chunks are needed by two or more.
    mesh = ls.Mesh({"x": 4})
    plan = ls.plan(catalog, ls.Sharding(mesh, ("x",)), strategy="per_process")
    assert plan.totals["bytes_read"] == sum(stored) and plan.totals["over_read_bytes"] == 0
    placement = ls.load(catalog, ls.Sharding(mesh, ("x",)), strategy="per_process")
    assert placement.stats["bytes_read"] == sum(stored) and placement.stats["decoded_pieces"] == len(stored)
    one = ls.plan(catalog, ls.Sharding(ls.Mesh({"x": 4}, processes=1), ("x",)), process=0)
    assert one.totals["bytes_read"] == stored[0], "rows 0 to 25 of a chunk of 30, read whole"
    assert 0 < one.totals["over_read_bytes"] < stored[0]
    paid = ls.load(catalog, ls.Sharding(mesh, ("x",)), strategy="per_device")
    assert paid.stats["decoded_pieces"] > len(stored)


# covers: loading H3
def test_bytes_that_libhdf5_reads_are_counted(tmp_path: Path) -> None:
    want = np.arange(600.0).reshape(100, 6)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["x"] = want
    layout = h5py.VirtualLayout(shape=want.shape, dtype=want.dtype)
    layout[...] = h5py.VirtualSource("s.h5", "x", shape=want.shape)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("v", layout)
    catalog = ls.open(tmp_path / "v.h5")
    assert ls.plan(catalog, ls.Sharding(ls.Mesh({"x": 2}), ("x",))).totals["bytes_read"] == want.nbytes
    placement = ls.load(catalog, ls.Sharding(ls.Mesh({"x": 2}), ("x",)))
    assert placement.stats["bytes_read"] == want.nbytes
    check_placed(catalog, None, want, {"x": 2})


def run_with(library: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LOADSTONE_HDF5_LIBRARY": library}
    words = [str(BINARY), *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


# covers: loading H4
def test_an_old_library_reads_chunks_itself(tmp_path: Path) -> None:
    want = np.random.default_rng(1).integers(0, 9, (50, 20), "<i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("gzip", data=want, chunks=(16, 16), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("zstd", data=want, chunks=(16, 16), **hdf5plugin.Zstd())
    inspected = run_with(OLD_LIBRARY, "inspect", tmp_path / "a.h5", "--array", "gzip")
    if "LOADSTONE_HDF5_LIBRARY" in inspected.stderr:
        pytest.skip("no old libhdf5 here")
    assert "does not tell where they lie" in inspected.stdout
    loaded = run_with(OLD_LIBRARY, "load", tmp_path / "a.h5", "--array", "gzip", "--dump", tmp_path / "out.bin")
    assert loaded.returncode == 0, loaded.stderr
    assert (tmp_path / "out.bin").read_bytes() == want.tobytes()
    refused = run_with(OLD_LIBRARY, "inspect", tmp_path / "a.h5", "--array", "zstd")
    assert refused.returncode == 3
    assert "filter 32015 (zstd)" in refused.stderr and "pip install h5py" in refused.stderr


def test_a_file_newer_than_the_library_names_version_and_cure(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(10,), compression="gzip", maxshape=(None,))
    done = run_with(OLD_LIBRARY, "inspect", tmp_path / "a.h5")
    if "LOADSTONE_HDF5_LIBRARY:" in done.stderr:
        pytest.skip("no old libhdf5 here")
    assert done.returncode == 3, done.stdout
    assert "newer libhdf5" in done.stderr and "1.10" in done.stderr and "h5py" in done.stderr


# covers: loading H6
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_shrunk_grown_empty_and_unlimited_extents(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    want = np.arange(60).reshape(20, 3)
    with h5py.File(path, "w", libver=libver) as file:
        made = file.create_dataset("x", data=want, maxshape=(None, None), chunks=(7, 2), compression="gzip")
        made.resize((9, 3))
        made.resize((15, 3))
        file.create_dataset("none", shape=(0, 3), maxshape=(None, 3), dtype="f4")
        file.create_dataset("late", shape=(8, 3), dtype="f4", fillvalue=2)
    want[9:] = 0
    catalog = ls.open(path)
    check_placed(catalog, "x", want[:15], {"x": 2})
    check_placed(catalog, "none", np.zeros((0, 3), "f4"), {"x": 2})
    check_placed(catalog, "late", np.full((8, 3), 2, "f4"), {"x": 2})
    with pytest.raises(ls.DataError, match="not allocated"):
        ls.open(path, array="late", strict=True)


# covers: loading H4
@pytest.mark.parametrize("kind", ["fixed", "extensible", "btree2", "single", "implicit", "btree1"])
def test_every_chunk_index(tmp_path: Path, kind: str) -> None:
    want = np.arange(40 * 30, dtype="<i2").reshape(40, 30)
    maxshape = {"extensible": (None, 30), "btree2": (None, None)}.get(kind)
    chunks = want.shape if kind == "single" else (7, 8)
    with h5py.File(tmp_path / "a.h5", "w", libver="earliest" if kind == "btree1" else "latest", userblock_size=512) as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(chunks)
        if kind == "implicit":
            plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        else:
            plist.set_deflate(2)
        limits = tuple(h5py.h5s.UNLIMITED if n is None else n for n in maxshape or want.shape)
        space = h5py.h5s.create_simple(want.shape, limits)
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I16LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, want)
    check_placed(ls.open(tmp_path / "a.h5"), None, want, {"x": 3})


# covers: loading H10
def test_types(tmp_path: Path) -> None:
    half = h5py.h5t.IEEE_F16LE.copy()
    half.set_fields(15, 7, 8, 0, 7)
    half.set_ebias(127)
    bits = np.arange(300, dtype="<u2")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = h5py.h5d.create(file.id, b"bf16", half, h5py.h5s.create_simple((300,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=half)
        file.create_dataset("opaque", data=bits.view("V2"))
        file.create_dataset("null", data=h5py.Empty("f4"))
        file.create_dataset("color", data=np.arange(3), dtype=h5py.enum_dtype({"r": 0, "g": 1, "b": 2}, basetype=">i4"))
        file["bits"] = h5py.SoftLink("/opaque")
    bf16 = ls.open(tmp_path / "a.h5", array="bf16")
    assert str(bf16.dtype) == "bfloat16"
    check_placed(bf16, None, bits.view(bf16.dtype), {"x": 2})
    check_placed(ls.open(tmp_path / "a.h5", array="bits", dtype="bfloat16"), None, bits.view(bf16.dtype), {"x": 2})
    check_placed(ls.open(tmp_path / "a.h5", array="color"), None, np.arange(3, dtype=">i4"), {"x": 1})
    with pytest.raises(ls.DataError, match="null dataspace"):
        ls.open(tmp_path / "a.h5", array="null")
    with pytest.raises(ls.DataError, match="--dtype"):
        ls.open(tmp_path / "a.h5", array="opaque")


# covers: loading H9
def test_a_file_that_a_writer_has_locked_opens(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", locking=True) as file:
        file["x"] = np.arange(10)
        file.flush()
        check_placed(ls.open(tmp_path / "a.h5"), None, np.arange(10), {"x": 2})


@pytest.mark.parametrize("options", FILTERS[2:], ids=str)
def test_damaged_chunks_are_errors_or_of_the_right_length(tmp_path: Path, options: dict[str, Any]) -> None:
    want = np.random.default_rng(3).integers(0, 4, (64, 64), "<i4")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", data=want, chunks=(32, 64), **options)
        chunk = made.id.get_chunk_info(0)
    good = bytearray(path.read_bytes())
    rng = random.Random(1)
    for _ in range(20):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[chunk.byte_offset + rng.randrange(chunk.size)] = rng.randrange(256)
        path.write_bytes(bad)
        try:
            ls.load(ls.open(path), ls.Sharding(ls.Mesh({"x": 2}), ("x",)))
        except ls.DataError as error:
            assert "a.h5" in str(error)


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
