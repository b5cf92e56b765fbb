"""ls.open: every kind of path, options, and real arrays that others ship."""

import os
import pathlib
from typing import Any

import loadstone as ls
import numpy as np
import pytest
import scipy
from support import save_npy

ARRAY = np.arange(24, dtype=np.float32).reshape(8, 3)


def test_kinds_of_paths(tmp_path: pathlib.Path) -> None:
    paths = save_npy(tmp_path, ARRAY, [0, 2, 5, 8])
    forms: list[Any] = [
        tmp_path,
        str(tmp_path),
        os.fsencode(tmp_path),
        paths,
        [pathlib.Path(p) for p in paths],
        [os.fsencode(p) for p in paths],
        (p for p in paths),
        str(tmp_path / "*.npy"),
    ]
    catalogs = [ls.open(form) for form in forms]
    for ds in catalogs:
        assert ds.shape == (8, 3) and ds.dtype == np.float32 and ds.rows == [2, 3, 3]
        assert ds.files == paths and len(ds) == 1
    assert catalogs[0] == catalogs[1] == catalogs[2] and hash(catalogs[0]) == hash(catalogs[1])
    assert catalogs[0] != ls.open(paths[0]) and catalogs[0] != 3


def test_names_that_are_not_utf8(tmp_path: pathlib.Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    for k in range(2):
        with open(folder + b"/s\xff_%d.npy" % k, "wb") as file:
            np.save(file, ARRAY[4 * k : 4 * k + 4])
    ds = ls.open(folder)
    assert [os.fsencode(f) for f in ds.files] == [folder + b"/s\xff_%d.npy" % k for k in range(2)]
    assert (ls.load(ds).numpy() == ARRAY).all()
    for name in ds.names:
        assert (ls.load(ds, array=name).numpy() == ARRAY).all()
    assert ds._repr_html_().encode()
    assert str(ds).encode("utf-8", "surrogateescape")
    by_name = ls.open(os.fsdecode(folder))
    assert by_name == ds
    os.truncate(folder + b"/s\xff_1.npy", 90)
    with pytest.raises(ls.DataError) as caught:
        ls.open(folder)
    assert os.fsencode(caught.value.file) == folder + b"/s\xff_1.npy"


def test_catalog_values(tmp_path: pathlib.Path) -> None:
    save_npy(tmp_path, ARRAY, [0, 2, 8])
    ds = ls.open(tmp_path, expect_files=2, expect_rows=8, name="weights")
    (info,) = ds.arrays
    assert (info.name, info.format, info.shape, info.nbytes, info.rows) == ("weights", "npy", (8, 3), 96, [2, 6])
    assert ds.names == ["weights"] and ds.nbytes == 96 and ds.completeness_checked
    assert ds.counters["opens"] == 2
    assert ls.load(ds, array="weights").name == "weights"
    with pytest.raises(ls.DataError, match="3"):
        ls.open(tmp_path, expect_files=3)
    with pytest.raises(ls.DataError, match="9"):
        ls.open(tmp_path, expect_rows=9)


def test_raw(tmp_path: pathlib.Path) -> None:
    ARRAY.tofile(tmp_path / "a.bin")
    for dtype in ("float32", "<f4", np.float32, np.dtype("float32"), "f4"):
        ds = ls.open(tmp_path / "a.bin", raw=True, dtype=dtype, row_shape=3)
        assert (ls.load(ds).numpy() == ARRAY).all()
    ds = ls.open(tmp_path / "a.bin", raw=True, dtype="float32", shape=(7, 3), offset=12)
    assert (ls.load(ds).numpy() == ARRAY[1:]).all()
    big = ls.open(tmp_path / "a.bin", raw=True, dtype=np.dtype(">f4"), row_shape=(3,))
    assert (ls.load(big).numpy() == ARRAY.byteswap()).all()
    fortran = ls.open(tmp_path / "a.bin", raw=True, dtype="float32", shape=(8, 3), order="F")
    assert (ls.load(fortran).numpy() == ARRAY.reshape(-1).reshape(8, 3, order="F")).all()
    with pytest.raises(ls.UsageError, match="float16"):
        ls.open(tmp_path / "a.bin", raw=True, dtype="f16", row_shape=3)
    with pytest.raises(ls.UsageError, match="is not a dtype"):
        ls.open(tmp_path / "a.bin", raw=True, dtype=object(), row_shape=3)
    with pytest.raises(ls.UsageError, match="'C' or 'F'"):
        ls.open(tmp_path / "a.bin", raw=True, dtype="f4", row_shape=3, order="Z")
    with pytest.raises(ls.UsageError, match="row_shape"):
        ls.open(tmp_path / "a.bin", raw=True, dtype="f4", row_shape="3")
    with pytest.raises(ls.UsageError, match="negative"):
        ls.open(tmp_path / "a.bin", raw=True, dtype="f4", row_shape=(-1,))


def test_list_file_and_orders(tmp_path: pathlib.Path) -> None:
    paths = save_npy(tmp_path, ARRAY, [0, 2, 5, 8])
    (tmp_path / "list.txt").write_text("".join(os.path.basename(p) + "\n" for p in paths))
    assert ls.open([], files_from=tmp_path / "list.txt").shape == (8, 3)
    with pytest.raises(ls.UsageError):
        ls.open(paths[::-1])
    kept = ls.open(paths[::-1], keep_order=True)
    assert (ls.load(kept).numpy() == np.concatenate([ARRAY[5:], ARRAY[2:5], ARRAY[:2]])).all()
    os.remove(paths[1])
    with pytest.raises(ls.DataError):
        ls.open(tmp_path / "shard_*.npy")
    holes = ls.open(str(tmp_path / "shard_*.npy"), allow_gaps=True)
    assert holes.shape == (5, 3) and holes.notes


def test_times_load_as_ticks(tmp_path: pathlib.Path) -> None:
    times = np.array(["2020-01-01", "2021-06-05"], dtype="datetime64[s]")
    np.save(tmp_path / "t.npy", times)
    with pytest.raises(ls.DataError, match="int64"):
        ls.open(tmp_path / "t.npy")
    ds = ls.open(tmp_path / "t.npy", dtype="int64")
    assert (ls.load(ds).numpy() == times.view(np.int64)).all()


def shipped() -> list[pathlib.Path]:
    found = []
    for package in (np, scipy):
        assert package.__file__
        found += sorted(pathlib.Path(package.__file__).parent.rglob("data/**/*.npy"))
    return found


# covers: loading N1
def test_some_arrays_are_shipped() -> None:
    assert len(shipped()) >= 5


# NumPy says that files of Python 2 are slow to open.
@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
@pytest.mark.parametrize("path", shipped(), ids=lambda p: p.name)
# covers: loading N1
def test_shipped_arrays(path: pathlib.Path) -> None:
    try:
        expected = np.load(path)
    except ValueError:
        expected = None  # pickled objects
    if expected is None or expected.dtype.kind in "OVSU":
        with pytest.raises(ls.DataError, match=path.name):
            ls.open(path)
        return
    ds = ls.open(path)
    loaded = ls.load(ds, verify=True).numpy()
    native = expected.astype(expected.dtype.newbyteorder("="))
    assert loaded.dtype == native.dtype and loaded.shape == native.shape
    assert loaded.tobytes() == native.tobytes()
