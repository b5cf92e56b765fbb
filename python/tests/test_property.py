"""Whatever the mesh, spec, shape, dtype, files, byte order and strategy: every device holds NumPy's slice."""

import pathlib

import loadstone as ls
import numpy as np
import pytest
from support import (
    NUMPY_TYPES,
    OTHER_TYPES,
    cut_rows,
    dtype_of,
    random_array,
    random_mesh,
    random_spec,
    same_bits,
    save_npy,
    save_raw,
    tiles,
)

STRATEGIES = ["auto", "global", "per_device", "per_process"]


class Case:
    """A data set on disk and a sharding, both drawn from a seed."""

    def __init__(self, seed: int, directory: pathlib.Path) -> None:
        rng = np.random.default_rng(seed)
        self.rng = rng
        name = str(rng.choice(NUMPY_TYPES + OTHER_TYPES))
        dtype = dtype_of(name)
        ndim = int(rng.integers(1, 5))
        mesh = random_mesh(rng)
        spec = random_spec(rng, list(mesh), ndim)
        split = tiles(mesh, spec, ndim)
        self.uneven = "ceil" if rng.random() < 0.4 else "error"
        shape = tuple(
            int(rng.integers(0, 14)) if self.uneven == "ceil" else n * int(rng.integers(0 if rng.random() < 0.1 else 1, 5))
            for n in split
        )
        self.array = random_array(rng, shape, dtype)
        ids = rng.permutation(64)[: int(np.prod(list(mesh.values())))]
        self.sharding = ls.Sharding(ls.Mesh(mesh, devices=[int(i) for i in ids]), spec, uneven=self.uneven)
        self.strategy = STRATEGIES[seed % len(STRATEGIES)]
        bounds = cut_rows(rng, shape[0], int(rng.integers(1, 6)))
        endian = str(rng.choice(["<", ">"])) if name in NUMPY_TYPES else "<"
        order = str(rng.choice(["C", "F"]))
        if name in OTHER_TYPES or rng.random() < 0.25:
            # Raw files of zero bytes cannot be told from missing ones: no empty parts.
            bounds = sorted(set(bounds)) if shape[0] else [0, 0]
            code = name if endian == "<" or dtype.itemsize == 1 else dtype.newbyteorder(">").str
            save_raw(directory, self.array, bounds, endian if dtype.itemsize > 1 and dtype.kind != "c" else "<", order)
            if dtype.kind == "c":
                code = name
            if 0 in shape[1:]:  # rows of no bytes cannot be counted
                (directory / "shard_0000.bin").write_bytes(b"")
                self.ds = ls.open(directory / "shard_0000.bin", raw=True, dtype=code, shape=shape, order=order)
            else:
                self.ds = ls.open(directory, raw=True, dtype=code, row_shape=shape[1:], order=order)
        else:
            save_npy(directory, self.array, bounds, order, endian)
            self.ds = ls.open(directory)


@pytest.mark.parametrize("seed", range(360))
# covers: sharding R2, R11, loading R1, R10
def test_every_device_holds_numpys_slice(seed: int, tmp_path: pathlib.Path) -> None:
    case = Case(seed, tmp_path)
    assert case.ds.shape == case.array.shape
    assert case.ds.dtype == case.array.dtype
    over = int(case.rng.integers(1, 4))
    placement = ls.load(case.ds, case.sharding, strategy=case.strategy, over_decompose=over, threads=1 + seed % 3)
    seen = np.zeros(case.array.shape, dtype=int)
    for shard in placement.shards:
        held = np.asarray(shard.data)
        assert same_bits(held, case.array[shard.index]), (shard, case.strategy)
        seen[shard.index] += 1
    assert (seen == case.sharding.replication_factor(case.array.shape)).all()
    assert same_bits(placement.numpy(), case.array)


@pytest.mark.parametrize("seed", range(1000, 1040))
# covers: sharding R11
def test_strategies_agree_and_verify(seed: int, tmp_path: pathlib.Path) -> None:
    case = Case(seed, tmp_path)
    held = []
    for strategy in STRATEGIES:
        placement = ls.load(case.ds, case.sharding, strategy=strategy, verify=True)
        assert placement.verdict is not None and placement.verdict.ok
        assert ls.verify(placement, case.ds).ok
        held.append([np.asarray(shard.data).tobytes() for shard in placement.shards])
    assert all(h == held[0] for h in held)


def test_scalars_and_single_device(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "s.npy", np.float64(2.5))
    ds = ls.open(tmp_path / "s.npy")
    assert ds.shape == () and ds.dtype == np.float64
    placement = ls.load(ds)
    assert placement.shards[0].device == "cpu:0" and placement.shards[0].index == ()
    assert placement.numpy()[()] == 2.5
    everywhere = ls.load(ds, ls.Sharding(ls.Mesh({"x": 3}), ()))
    assert [np.asarray(s.data)[()] for s in everywhere.shards] == [2.5] * 3
