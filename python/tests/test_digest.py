"""ls.digest equals the independent reference, whatever the files."""

import importlib.util
import pathlib
from types import ModuleType

import loadstone as ls
import numpy as np
import pytest
from support import NUMPY_TYPES, OTHER_TYPES, cut_rows, dtype_of, random_array, save_npy, save_raw

REFERENCE = pathlib.Path(__file__).parents[2] / "tests" / "reference" / "pd61.py"


@pytest.fixture(scope="module")
def pd61() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pd61", REFERENCE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(40))
# covers: faults F10
def test_digest_equals_the_reference(seed: int, tmp_path: pathlib.Path, pd61: ModuleType) -> None:
    rng = np.random.default_rng(seed)
    name = str(rng.choice(NUMPY_TYPES + OTHER_TYPES))
    shape = tuple(int(n) for n in rng.integers(0 if seed % 10 == 0 else 1, 9, int(rng.integers(1, 4))))
    if seed % 8 == 3:
        shape = (3, 1100)  # rows beyond 4096 bytes
    array = random_array(rng, shape, dtype_of(name))
    bounds = cut_rows(rng, shape[0], int(rng.integers(1, 4)))
    if name in OTHER_TYPES:
        save_raw(tmp_path, array, sorted(set(bounds)) if shape[0] else [0, 0])
        ds = ls.open(tmp_path, raw=True, dtype=name, row_shape=shape[1:])
    else:
        save_npy(tmp_path, array, bounds, str(rng.choice(["C", "F"])), str(rng.choice(["<", ">"])))
        ds = ls.open(tmp_path)
    expected = pd61.text(pd61.digest_bytes(shape, array.dtype.itemsize, array.tobytes()))
    assert ls.digest(ds).digest == expected


# covers: faults F10
def test_elements_exchanged_change_the_digest(tmp_path: pathlib.Path) -> None:
    array = np.arange(100, dtype=np.int32).reshape(10, 10)
    np.save(tmp_path / "a.npy", array)
    before = ls.digest(ls.open(tmp_path / "a.npy")).digest
    array[3, 4], array[7, 1] = array[7, 1], array[3, 4]
    np.save(tmp_path / "a.npy", array)
    assert ls.digest(ls.open(tmp_path / "a.npy")).digest != before
