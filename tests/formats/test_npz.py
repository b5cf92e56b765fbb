"""npz against NumPy: stored and deflated members, zip64, real files, damage."""

import io
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import loadstone as ls
import numpy as np
import numpy.typing as npt
import pytest
import scipy
from placed import check_placed

Array = npt.NDArray[Any]


def members() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {
        "a": rng.standard_normal((37, 5)),
        "fortran": np.asfortranarray(rng.integers(-9, 9, (12, 7, 3)).astype(np.int16)),
        "big": rng.integers(0, 2**31, (9, 4)).astype(">u4"),
        "big_fortran": np.asfortranarray(rng.standard_normal((6, 8)).astype(">f8")),
        "zeros": np.zeros((20000,), np.uint8),
        "empty": np.zeros((0, 4), np.float32),
        "scalar": np.array(2.5),
        "flags": rng.integers(0, 2, (11,)).astype(bool),
    }


# covers: loading R3
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_member_equals_numpy(tmp_path: Path, save: Any) -> None:
    arrays = members()
    save(tmp_path / "m.npz", **arrays)
    ds = ls.open(tmp_path / "m.npz")
    assert ds.names == list(arrays)
    for name, want in arrays.items():
        check_placed(ds, name, want, {"x": 3})


def test_members_of_several_files_are_stacked(tmp_path: Path) -> None:
    parts = [np.random.default_rng(i).standard_normal((rows, 3)) for i, rows in enumerate([4, 0, 9])]
    for i, part in enumerate(parts):
        (np.savez if i % 2 else np.savez_compressed)(tmp_path / f"s{i}.npz", x=part, y=np.arange(i + 1))
    ds = ls.open(tmp_path, array="x")
    check_placed(ds, "x", np.concatenate(parts), {"x": 4})
    np.savez(tmp_path / "s3.npz", y=np.arange(3))
    with pytest.raises((ls.UsageError, ls.DataError), match="s3.npz.*'x'"):
        ls.open(tmp_path, array="x")


def test_zip64_and_comments(tmp_path: Path) -> None:
    want = np.arange(24.0).reshape(6, 4)
    buffer = io.BytesIO()
    np.save(buffer, want)
    with zipfile.ZipFile(tmp_path / "z.npz", "w") as archive:
        with archive.open("x.npy", "w", force_zip64=True) as member:
            member.write(buffer.getvalue())
        archive.comment = b"PK\x05\x06 in a comment" + bytes(40)
    check_placed(ls.open(tmp_path / "z.npz"), "x", want, {"x": 2})


def test_what_is_no_array_is_left_out_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", good=np.arange(4), bad=np.array([{}, None], dtype=object), text=np.array(["a"]))
    with zipfile.ZipFile(tmp_path / "o.npz", "a") as archive:
        archive.writestr("README.txt", "hello")
    ds = ls.open(tmp_path / "o.npz")
    assert ds.names == ["good"] and any("bad.npy" in note and "README.txt" in note for note in ds.notes)
    for name, word in [("bad", "object"), ("text", "dtype"), ("README.txt", "no npy file")]:
        with pytest.raises(ls.DataError, match=word):
            ls.open(tmp_path / "o.npz", array=name)
    with pytest.raises(ls.UsageError, match="did you mean 'good'"):
        ls.open(tmp_path / "o.npz", array="goood")


def test_an_archive_that_begins_with_another_file_is_an_npz_by_its_name(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    with zipfile.ZipFile(tmp_path / "r.npz", "w") as archive:
        archive.writestr("README.txt", "x" * 400)  # longer than what recognition looks at
        archive.writestr("x.npy", buffer.getvalue())
    ds = ls.open(tmp_path / "r.npz")
    assert ds.names == ["x"] and any("README.txt" in note for note in ds.notes)
    check_placed(ds, "x", np.arange(3), {"x": 1})


def test_shipped_files_of_numpy_and_scipy() -> None:
    found = [p for package in (np, scipy) for p in Path(package.__file__).parent.rglob("*.npz")]
    assert len(found) >= 3
    loaded = 0
    for path in found:
        try:
            ds = ls.open(path)
        except ls.DataError:  # nothing but objects
            continue
        with np.load(path, allow_pickle=False) as theirs:
            for name in ds.names:
                check_placed(ds, name, theirs[name], {"x": 2})
                loaded += 1
    assert loaded > 10


def test_damage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez_compressed(path, x=np.arange(500, dtype=np.int32), y=np.zeros((30, 30)))
    whole = path.read_bytes()
    want = {"x": np.arange(500, dtype=np.int32).tobytes(), "y": np.zeros((30, 30)).tobytes()}
    rng = random.Random(9)
    refused = 0
    for _ in range(400):
        bad = bytearray(whole)
        if rng.random() < 0.2:
            del bad[rng.randrange(len(bad)) :]
        else:
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        try:
            ds = ls.open(path)
            for name in ds.names:
                if name in want:  # a changed name is a name all the same
                    assert bytes(np.asarray(ls.load(ds, array=name).shards[0].data).tobytes()) == want[name]
        except (ls.DataError, ls.UsageError):
            refused += 1
    assert refused > 250  # CRC-32 guards every byte of the members


def test_a_member_that_claims_too_much_allocates_nothing(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "b.npz", x=np.zeros(100))
    raw = bytearray((tmp_path / "b.npz").read_bytes())
    entry = raw.index(b"PK\x01\x02")
    raw[entry + 24 : entry + 28] = struct.pack("<I", 0xFFFFFFF0)
    (tmp_path / "b.npz").write_bytes(raw)
    with pytest.raises(ls.DataError, match="claims"):
        ls.open(tmp_path / "b.npz")
