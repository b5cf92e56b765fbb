"""ls.verify and manifests: faults are named, right data passes."""

import json
import pathlib
from typing import Any

import loadstone as ls
import numpy as np
import pytest
from support import save_npy

ARRAY = np.random.default_rng(3).random((64, 128), np.float32)


@pytest.fixture
def ds(tmp_path: pathlib.Path) -> ls.Catalog:
    save_npy(tmp_path, ARRAY, [0, 10, 11, 64])
    return ls.open(tmp_path)


def load(ds: ls.Catalog, spec: Any = (None, "x"), axes: Any = None, **kwargs: Any) -> ls.Placement:
    return ls.load(ds, ls.Sharding(ls.Mesh(axes or {"x": 8}, **kwargs), spec))


def held(placement: ls.Placement, k: int) -> np.ndarray:
    return np.asarray(placement.shards[k].data)


def accused(placement: ls.Placement, ds: ls.Catalog, **kwargs: Any) -> dict[int, ls.Accusation]:
    with pytest.raises(ls.PlacementError) as caught:
        ls.verify(placement, ds, **kwargs)
    assert isinstance(caught.value, RuntimeError) and not caught.value.verdict.ok and not caught.value.verdict
    assert str(caught.value) == str(caught.value.verdict)
    return {a.id: a for a in caught.value.verdict.accusations}


def test_right_data_passes(ds: ls.Catalog) -> None:
    placement = load(ds)
    verdict = ls.verify(placement, ds)
    assert verdict.ok and verdict and not verdict.accusations and verdict.shards == 8
    assert verdict.bytes_verified >= ARRAY.nbytes
    assert [level.level[:2] for level in verdict.levels] == ["L0", "L1", "L2", "L3"]
    assert ls.verify(placement, ds).ok, "a second time, too"
    assert ls.verify(ARRAY, ds).ok and ls.verify(np.asfortranarray(ARRAY), ds).ok
    for mode in (True, "source"):
        assert ls.load(ds, verify=mode).verdict.ok  # type: ignore[union-attr]


# covers: faults F1, sharding R5
def test_f1_two_shards_exchanged(ds: ls.Catalog) -> None:
    placement = load(ds, processes=2)
    one = ls.load(ds, placement.sharding, process=0)
    a, b = held(one, 0), held(one, 1)
    a[:], b[:] = b.copy(), a.copy()
    found = accused(one, ds)
    assert sorted(found) == [0, 1]
    assert found[0].expected_box == ((0, 64), (0, 16)) and found[0].found_box == ((0, 64), (16, 32))
    assert found[0].found_owners == [1] and found[0].holds == "other_box" and found[0].device == "cpu:0"
    assert found[1].found_box == ((0, 64), (0, 16)) and found[0].level.startswith("L2")
    assert "cpu:0" in str(found[0])


# covers: faults F8
def test_f8_all_zero(ds: ls.Catalog) -> None:
    placement = load(ds)
    held(placement, 5)[:] = 0
    found = accused(placement, ds)
    assert list(found) == [5] and found[5].holds == "all_zero"


# covers: faults F9
def test_f9_one_bit(ds: ls.Catalog) -> None:
    placement = load(ds, ("row",), {"rep": 4, "row": 2})
    held(placement, 6).view(np.uint32)[3, 4] ^= 1
    found = accused(placement, ds)
    assert list(found) == [6] and found[6].first_index == (3, 4) and found[6].byte_offset == (3 * 128 + 4) * 4
    assert found[6].expected_bits != found[6].found_bits


# covers: faults F11
def test_f11_sign_of_zero(tmp_path: pathlib.Path) -> None:
    save_npy(tmp_path, np.array([0.0, np.nan, 1.0, 0.0], np.float32), [0, 2, 4])
    ds = ls.open(tmp_path)
    placement = load(ds, ("x",), {"x": 2})
    assert ls.verify(placement, ds).ok, "identical NaNs must not alarm"
    held(placement, 1)[1] = -0.0
    found = accused(placement, ds)
    assert list(found) == [1] and found[1].first_index == (3,)
    assert (found[1].expected_bits, found[1].found_bits) == ("0x00000000", "0x80000000")


# covers: faults F2
def test_f2_another_order_of_axes(ds: ls.Catalog) -> None:
    mesh = ls.Mesh({"x": 4, "y": 2})
    placement = ls.load(ds, ls.Sharding(mesh, (("y", "x"),)))
    found = accused(placement, ds, sharding=ls.Sharding(mesh, (("x", "y"),)))
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert found[1].found_box == ((32, 40), (0, 128)) and found[1].found_owners == [4]


def test_a_whole_array_that_differs(ds: ls.Catalog) -> None:
    wrong = ARRAY.copy()
    wrong[63, 127] += 1
    with pytest.raises(ls.PlacementError) as caught:
        ls.verify(wrong, ds)
    assert caught.value.verdict.accusations[0].first_index == (63, 127)
    with pytest.raises(ls.PlacementError, match="float64"):
        ls.verify(ARRAY.astype(np.float64), ds)
    with pytest.raises(TypeError, match="expected an array"):
        ls.verify(object(), ds)
    with pytest.raises(ValueError, match="sharding of 1"):
        ls.verify(ARRAY, ds, sharding=ls.Sharding(ls.Mesh({"x": 2}), ("x",)))


class TestManifest:
    def test_round_trip(self, ds: ls.Catalog, tmp_path: pathlib.Path) -> None:
        manifest = ls.digest(ds, tmp_path / "m.json")
        assert ls.read_manifest(tmp_path / "m.json") == manifest
        assert (tmp_path / "m.json").read_text().strip() == manifest.to_json().strip()
        assert json.loads(manifest.to_json())
        (array,) = manifest.arrays
        assert array.shape == ARRAY.shape and array.dtype == np.float32 and array.nbytes == ARRAY.nbytes
        assert array.digest == manifest.digest and hash(manifest) == hash(ls.digest(ds))
        placement = load(ds)
        for form in (manifest, tmp_path / "m.json", str(tmp_path / "m.json")):
            assert ls.verify(placement, ds, manifest=form).ok
            assert ls.load(ds, manifest=form).verdict.ok  # type: ignore[union-attr]

    def test_other_files_of_the_same_array_pass(self, ds: ls.Catalog, tmp_path: pathlib.Path) -> None:
        manifest = ls.digest(ds)
        other = tmp_path / "other"
        other.mkdir()
        save_npy(other, ARRAY, [0, 33, 64], order="F", endian=">")
        again = ls.open(other, name=ds.names[0])
        assert ls.digest(again).digest == manifest.digest
        assert ls.load(again, verify=True, manifest=manifest).verdict.ok  # type: ignore[union-attr]

    def test_changed_files_are_found(self, ds: ls.Catalog, tmp_path: pathlib.Path) -> None:
        manifest = ls.digest(ds)
        other = tmp_path / "other"
        other.mkdir()
        wrong = ARRAY.copy()
        wrong[40, 7] = 1e9
        save_npy(other, wrong, [0, 33, 64])
        again = ls.open(other, name=ds.names[0])
        with pytest.raises(ls.PlacementError) as caught:
            ls.load(again, manifest=manifest)
        assert caught.value.verdict.accusations

    def test_malformed(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "m.json").write_text("{")
        with pytest.raises(ls.DataError, match=r"m\.json"):
            ls.read_manifest(tmp_path / "m.json")
        with pytest.raises(FileNotFoundError):
            ls.read_manifest(tmp_path / "none.json")
