"""Siblings of the mesh cases: every device holds NumPy's slice, whatever the order, strategy and storage."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_arrays import arange, npy
from loadstone_cli import failing, files_in, good


@dataclass
class MeshCase:
    id: str
    array: Any
    args: list[str]
    placement: dict[int, Any]  # device id: the part of the array


GRID = arange(8, 6, dtype="<i4")
CUBE = arange(4, 6, 8, dtype="<f8")


def mesh(id: str, array: Any, args: str, placement: dict[int, Any]) -> MeshCase:
    return MeshCase(id, array, args.split(" "), placement)


MESHES = [
    mesh("three-axes", CUBE, "--mesh x=2,y=3,z=2 --spec x,y,z",
         {d: CUBE[2 * (d // 6) :][:2, 2 * (d // 2 % 3) :][:, :2, 4 * (d % 2) :][:, :, :4] for d in range(12)}),
    mesh("devices-in-another-order", GRID, "--mesh x=4 --spec x --devices 3,1,0,2",
         {3: GRID[0:2], 1: GRID[2:4], 0: GRID[4:6], 2: GRID[6:8]}),
    mesh("ids-with-gaps", GRID, "--mesh x=2 --spec x --devices 7,100", {7: GRID[:4], 100: GRID[4:]}),
    mesh("minor-axis-first", GRID, "--mesh x=2,y=2 --spec y+x", {0: GRID[0:2], 1: GRID[4:6], 2: GRID[2:4], 3: GRID[6:8]}),
    mesh("inner-dimension-only", CUBE, "--mesh z=4 --spec=-,-,z", {d: CUBE[:, :, 2 * d : 2 * d + 2] for d in range(4)}),
    mesh("empty-spec", GRID, "--mesh x=2 --spec ", {0: GRID, 1: GRID}),
    mesh("one-device", GRID, "--devices 5", {5: GRID}),
    mesh("uneven-rows", GRID, "--mesh x=3 --spec x --uneven ceil", {0: GRID[:3], 1: GRID[3:6], 2: GRID[6:]}),
    mesh("uneven-with-empty-tiles", GRID[:2], "--mesh x=4 --spec x --uneven ceil",
         {0: GRID[0:1], 1: GRID[1:2], 2: GRID[2:2], 3: GRID[2:2]}),
    mesh("uneven-columns", GRID, "--mesh y=4 --spec=-,y --uneven ceil",
         {0: GRID[:, :2], 1: GRID[:, 2:4], 2: GRID[:, 4:6], 3: GRID[:, 6:6]}),
    mesh("row-tiles", GRID, "--devices 0,1,2", {0: GRID[:3], 1: GRID[3:6], 2: GRID[6:]}),
    mesh("row-tiles-more-than-rows", GRID[:2], "--devices 0,1,2,3", {0: GRID[:1], 1: GRID[1:2], 2: GRID[2:2], 3: GRID[2:2]}),
    mesh("row-tiles-over-decomposed", GRID, "--devices 0,1 --over-decompose 3", {0: GRID[:4], 1: GRID[4:]}),
    mesh("over-decomposed-mesh", CUBE, "--mesh x=2 --spec=-,x --over-decompose 5", {0: CUBE[:, :3], 1: CUBE[:, 3:]}),
    mesh("small-windows", CUBE, "--mesh x=2,y=2 --spec x,-,y --window 64",
         {0: CUBE[:2, :, :4], 1: CUBE[:2, :, 4:], 2: CUBE[2:, :, :4], 3: CUBE[2:, :, 4:]}),
    mesh("one-thread", GRID, "--mesh x=2 --spec=-,x --threads 1", {0: GRID[:, :3], 1: GRID[:, 3:]}),
    mesh("many-threads", GRID, "--mesh x=2 --spec=-,x --threads 64", {0: GRID[:, :3], 1: GRID[:, 3:]}),
]  # fmt: skip


@pytest.mark.parametrize("stored", ["c", "fortran", "big-endian"])
@pytest.mark.parametrize("strategy", ["auto", "global", "per_device", "per_process"])
@pytest.mark.parametrize("case", MESHES, ids=lambda case: case.id)
# covers: loading R5
# covers: loading R10
# covers: loading R14
# covers: loading P3
# covers: loading P5
# covers: loading P9
# covers: loading P11
def test_placement(case: MeshCase, strategy: str, stored: str, tmp_path: Path) -> None:
    cut = max(1, len(case.array) * 2 // 3)
    for i, part in enumerate([case.array[:cut], case.array[cut:]]):
        if stored == "fortran":
            part = np.asfortranarray(part)
        if stored == "big-endian":
            part = part.astype(part.dtype.newbyteorder(">"))
        (tmp_path / f"s{i}.npy").write_bytes(npy(part))
    body = good(
        "load", ".", *case.args, "--strategy", strategy, "--verify", "--dump", "whole.bin", "--dump-each",
        "out.{device}.bin", "--json", cwd=tmp_path,
    ).json  # fmt: skip
    assert (tmp_path / "whole.bin").read_bytes() == case.array.tobytes()
    shards = {shard["device"]: shard for shard in body["shards"]}
    assert sorted(shards) == sorted(case.placement)
    for device, want in case.placement.items():
        assert (tmp_path / f"out.{device}.bin").read_bytes() == want.tobytes()
        index = tuple(slice(begin, end) for begin, end in shards[device]["index"])
        assert np.array_equal(case.array[index], want)
        assert shards[device]["bytes"] == want.nbytes


@pytest.mark.parametrize(
    "args, words, code",
    [
        ("--mesh x=2 --spec x,y", ["y", "axis|axes"], 2),
        ("--mesh x=2 --spec -,-,x", ["2", "3|dimension"], 2),
        ("--mesh x=0 --spec x", ["x", "0"], 2),
        ("--mesh x=-2 --spec x", ["x", "-2"], 2),
        ("--mesh x=2,x=2 --spec x", ["x", "twice|repeated|duplicate"], 2),
        ("--mesh x --spec x", ["x", "size|="], 2),
        ("--mesh =2 --spec -", ["name|axis|="], 2),
        ("--mesh x=two --spec x", ["two"], 2),
        ("--mesh x=99999999999 --spec x", ["99999999999"], 2),
        ("--mesh x=4294967296,y=4294967296 --spec x", ["large|overflow|2^63|4294967296"], 2),
        ("--mesh x=2 --spec x+x", ["x", "twice|more than once|repeated"], 2),
        ("--mesh x=2 --spec ((x))", ["("], 2),
        ("--mesh x=2 --spec UNCONSTRAINED", ["UNCONSTRAINED"], 2),
        ("--mesh x=2", ["--spec"], 2),
        ("--spec x", ["--mesh"], 2),
        ("--mesh x=2 --spec x --devices 1,1", ["1", "twice|repeated|duplicate"], 2),
        ("--mesh x=3 --spec x --devices 0,1", ["3", "2", "device"], 2),
        ("--mesh x=2 --spec x --devices tpu:0,tpu:1", ["tpu"], 2),
        ("--mesh x=2 --spec x --devices 0,", ["device"], 2),
        ("--devices cuda:0", ["cuda"], 4),
        ("--mesh x=5 --spec x", ["8", "5", "divi", "uneven"], 2),
        ("--mesh x=4 --spec -,x", ["6", "4", "divi"], 2),
        ("--mesh x=2 --spec x --uneven pad", ["pad", "ceil"], 2),
        ("--mesh x=2 --spec x --strategy fastest", ["fastest", "per_process"], 2),
        ("--mesh x=2 --spec x --strategy exchange", ["exchange"], 2),
        ("--mesh x=2 --spec x --over-decompose 0", ["--over-decompose", "0"], 2),
    ],
)
# covers: loading E3
# covers: loading E15
def test_placement_refused(args: str, words: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "s0.npy").write_bytes(npy(GRID))
    result = failing(code, "load", ".", *args.split(" "), "--dump-each", "out.{device}.bin", "--json", cwd=tmp_path)
    for message in (result.error["message"], result.err):
        for alternatives in words:
            assert any(word.lower() in message.lower() for word in alternatives.split("|")), (alternatives, message)
    assert files_in(tmp_path) == ["s0.npy"]


# covers: loading D6
def test_a_0d_array_is_copied_to_every_device(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(npy(np.float64(2.5)))
    good(
        "load",
        "a.npy",
        "--mesh",
        "x=3",
        "--spec",
        "",
        "--verify",
        "--dump-each",
        "o{device}",
        "--dump",
        "w",
        cwd=tmp_path,
    )
    for name in ("o0", "o1", "o2", "w"):
        assert (tmp_path / name).read_bytes() == struct.pack("<d", 2.5)
    failing(2, "load", "a.npy", "--mesh", "x=3", "--spec", "x", cwd=tmp_path)
