"""Several formats stacked into one array, on request only."""

from pathlib import Path
from typing import Any

import loadstone as ls
import numpy as np
import numpy.typing as npt
import pytest
from loadstone_cli import failing, good
from placed import check_placed

Array = npt.NDArray[Any]
FORMATS = ["npy", "npz", "safetensors", "arrow", "parquet", "hdf5", "zarr", "zarr2"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array]:
    """shard_0.npy, shard_1.npz, … of one array."""
    folder = tmp_path_factory.mktemp("mixed") / "set"
    folder.mkdir()
    rng = np.random.default_rng(1)
    arrays = []
    for i, format in enumerate(FORMATS):
        arrays.append(rng.standard_normal((5 + i, 6)).astype(np.float32))
        np.save(folder.parent / "x.npy", arrays[-1])
        made = ls.convert(folder.parent / "x.npy", folder.parent / "one", format=format, replace=True).files[0]
        Path(made).rename(folder / f"shard_{i}{Path(made).suffix}")
    return folder, np.concatenate(arrays)


# covers: loading D21
def test_two_formats_are_an_error_that_names_both(parts: tuple[Path, Array]) -> None:
    folder = parts[0]
    with pytest.raises(ls.DataError, match=r"shard_1.npz': is npz, but '.*shard_0.npy' is npy: two formats in one set"):
        ls.open(folder)
    with pytest.raises(ls.DataError, match="shard_3.arrow': is arrow, but .*shard_2.safetensors' is safetensors"):
        ls.open([folder / "shard_2.safetensors", folder / "shard_3.arrow"])
    assert "two formats" in failing(3, "inspect", folder, "--json").error["message"]


# covers: loading D21, R3
def test_on_request_they_are_stacked(parts: tuple[Path, Array]) -> None:
    folder, want = parts
    ds = ls.open(folder, mixed_formats=True)
    assert ds.rows == [5 + i for i in range(len(FORMATS))] and ds.shape == want.shape
    for axes, spec in [({"x": 1}, ("x",)), ({"x": 3}, ("x",)), ({"x": 2, "y": 3}, ("x", "y")), ({"y": 4}, (None, "y"))]:
        check_placed(ds, None, want, axes, spec)
    backwards = [folder / f"shard_{i}{s}" for i, s in [(7, ".zarr"), (2, ".safetensors"), (0, ".npy")]]
    ds = ls.open(backwards, mixed_formats=True, keep_order=True)
    check_placed(ds, None, np.concatenate([want[56:], want[11:18], want[:5]]), {"x": 2})
    body = good("inspect", folder, "--mixed-formats", "--json").json
    assert body["format"] == "mixed" and body["arrays"][0]["format"] == "mixed" and body["arrays"][0]["total_rows"] == 68
    with pytest.raises(ls.UsageError, match="several formats: name the one to write"):
        ls.convert(folder, folder.parent / "x", mixed_formats=True)
    ls.convert(folder, folder.parent / "all.h5", mixed_formats=True, verify=True)
    check_placed(ls.open(folder.parent / "all.h5"), None, want, {"x": 2})


# covers: loading D4, D5, D21
def test_types_and_rows_must_agree_all_the_same(tmp_path: Path) -> None:
    np.save(tmp_path / "s0.npy", np.zeros((3, 4), np.float32))
    ls.write_dataset(tmp_path / "w", (3, 4), "float64", format="hdf5")
    ls.write_dataset(tmp_path / "v", (3, 5), "float32", format="zarr")
    for other, words in [("w/shard_0000.h5", "float32, found float64"), ("v/shard_0000.zarr", r"\(3, 4\).*\(3, 5\)")]:
        with pytest.raises(ls.DataError, match=words):
            ls.open([tmp_path / "s0.npy", tmp_path / other], mixed_formats=True)


def test_an_array_is_taken_by_name_where_there_are_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 99, (n, 3)) for n in (4, 2))
    np.save(tmp_path / "p0.npy", a)
    np.savez(tmp_path / "p1.npz", other=np.arange(3), w=b)
    ls.convert(tmp_path / "p1.npz", tmp_path / "p2.h5", array=["other", "w"])
    paths = [tmp_path / f"p{i}{s}" for i, s in enumerate([".npy", ".npz", ".h5"])]
    check_placed(ls.open(paths, array="w", mixed_formats=True), "w", np.concatenate([a, b, b]), {"x": 3})
    with pytest.raises(ls.DataError, match="it has: other, w"):
        ls.open(paths, mixed_formats=True)
