"""Index maps and replica ids equal those of the installed JAX."""

import jax
import loadstone as ls
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from loadstone._shardings import from_jax
from support import random_mesh, random_spec, tiles


@pytest.mark.parametrize("seed", range(200))
# covers: sharding R3, R4
def test_maps_equal_jax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = random_mesh(rng)
    ndim = int(rng.integers(0, 5))
    spec = random_spec(rng, list(sizes), ndim)
    shape = tuple(n * int(rng.integers(1, 4)) for n in tiles(sizes, spec, ndim))
    devices = rng.permutation(np.array(jax.devices()))[: int(np.prod(list(sizes.values())))]
    theirs = NamedSharding(Mesh(devices.reshape(tuple(sizes.values())), tuple(sizes)), P(*spec))
    ours = ls.Sharding(ls.Mesh(sizes, devices=[d.id for d in devices]), spec)
    assert from_jax(theirs, shape).same_placement(ours, shape)
    assert [s.id for s in ours.shards(shape)] == [d.id for d in devices]

    index_map = theirs.devices_indices_map(shape)
    assert {s.id: s.index for s in ours.shards(shape)} == {d.id: index for d, index in index_map.items()}
    assert ours.shard_shape(shape) == theirs.shard_shape(shape)
    assert ours.is_fully_replicated(shape) == theirs.is_fully_replicated
    array = jax.device_put(np.zeros(shape, np.int8), theirs)
    replicas = {shard.device.id: shard.replica_id for shard in array.addressable_shards}
    assert {s.id: s.replica_id for s in ours.shards(shape)} == replicas


# covers: sharding R3
def test_other_shardings_come_in_by_their_own_map() -> None:
    devices = jax.devices()
    single = from_jax(jax.sharding.SingleDeviceSharding(devices[3]), (4, 2))
    assert [(s.id, s.device, s.index) for s in single.shards((4, 2))] == [(3, "cpu:3", (slice(None), slice(None)))]
    other = jax.sharding.PmapSharding.default((8, 2)) if hasattr(jax.sharding, "PmapSharding") else None
    if other is not None:
        boxes = [s.box for s in from_jax(other, (8, 2)).shards((8, 2))]
        assert boxes == [((k, k + 1), (0, 2)) for k in range(8)]


# covers: sharding G1
def test_g1_and_its_helpers() -> None:
    sharding = ls.Sharding(ls.Mesh({"x": 8}, processes=2), (None, "x"))
    shards = sharding.shards((64, 128))
    assert [s.index for s in shards] == [(slice(None), slice(16 * k, 16 * k + 16)) for k in range(8)]
    assert [s.process for s in shards] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sharding.num_addressable((64, 128), process=2) == (64, 32)
    assert sharding.local_to_global_shape((64, 32)) == (64, 128)
    assert sharding.load_groups((64, 128)) == [[0], [1], [2], [3]]
    assert [s.id for s in sharding.shards((64, 128), process=1)] == [2, 3]


# covers: sharding G2
def test_g2_permuted_devices() -> None:
    ids = [6, 2, 3, 4, 0, 7, 5, 1]
    sharding = ls.Sharding(ls.Mesh({"x": 8}, devices=ids, processes=[i // 2 for i in ids]), "-,x")
    assert {s.id: s.box[1] for s in sharding.shards((64, 128))} == {
        d: (16 * k, 16 * k + 16) for k, d in enumerate(ids)
    }
    assert [sharding.process_index_and_count((64, 128), 1, p) for p in range(4)] == [(3, 4), (1, 4), (2, 4), (0, 4)]


# covers: sharding G10
def test_g10_load_groups() -> None:
    ids = [0, 4, 2, 6, 1, 5, 3, 7]
    mesh = ls.Mesh((4, 2), ("rep", "row"), devices=np.array(ids).reshape(4, 2), processes=[i // 2 for i in ids])
    sharding = ls.Sharding(mesh, ("row",))
    assert sharding.load_groups((64, 128)) == [[0, 1], [2, 3]]
    assert {s.id: s.replica_id for s in sharding.shards((64, 128))} == {0: 0, 2: 1, 1: 2, 3: 3, 4: 0, 6: 1, 5: 2, 7: 3}
    assert sharding.replication_factor((64, 128)) == 4


# covers: sharding G18
def test_g18_is_not_uniform() -> None:
    ids = [0, 1, 4, 5, 2, 6, 3, 7]
    sharding = ls.Sharding(ls.Mesh({"r": 2, "c": 4}, devices=ids, processes=[i // 4 for i in ids]), ("r", "c"))
    assert sharding.process_index_and_count((4, 8), 0) == (0, 1)
    with pytest.raises(ValueError, match="NonUniformShardingError.*dimension 1"):
        sharding.process_index_and_count((4, 8), 1)
    assert sharding.local_to_global_shape((4, 6)) == (4, None)
    assert sharding.num_addressable((4, 8), 1) == (4, 6)


def test_uneven_tiles() -> None:
    sharding = ls.Sharding(ls.Mesh({"x": 4}), ("x",), uneven="ceil")
    assert [s.box[0] for s in sharding.shards(10)] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [s.box[0] for s in sharding.shards((2,))] == [(0, 1), (1, 2), (2, 2), (2, 2)]
    tiled = ls.Sharding.row_tiles(4)
    assert [s.box[0] for s in tiled.shards((10, 3))] == [(0, 3), (3, 6), (6, 9), (9, 10)]


MESHES = [
    (({"x": 2, "y": 2},), {"devices": [0, 1, 2]}, r"4.*3"),
    (({"x": 2},), {"devices": [1, 1]}, "1"),
    (((2, 2), ("x",)), {}, r"1|2"),
    (((2, 2), ("x", None)), {}, "axis name 1 is None"),
    (((2, 2), ("x", "x")), {}, "x"),
    (((2, 2),), {}, "axis_names"),
    (({"x": 0},), {}, "x|0"),
    (({"x": 2},), {"processes": [0]}, "expected one for each of the 2 devices, found 1"),
    (({"x": 2},), {"devices": "cpu:0,bogus"}, "bogus"),
]


@pytest.mark.parametrize(("args", "kwargs", "words"), MESHES)
# covers: sharding R30
def test_meshes_refused(args: tuple, kwargs: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ls.Mesh(*args, **kwargs)


SPECS = [
    (("x", "x"), (8, 4), "x"),
    (("q",), (8, 4), "q"),
    ((None, "y", None, None), (8, 4), r"4|2"),
    ((None, "y"), (8, 3), r"dimension 1 \(size 3\).*'y' \(size 2\)"),
    (("x", "y"), (1, 2), r"dimension 0 \(size 1\).*'x'"),
    (("x",), (), r"P\(\)|scalar"),
]


@pytest.mark.parametrize(("spec", "shape", "words"), SPECS)
def test_specs_refused(spec: tuple, shape: tuple, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ls.Sharding(ls.Mesh({"x": 4, "y": 2}), spec).shards(shape)


def test_specs_that_give_no_placement() -> None:
    mesh = ls.Mesh({"x": 4, "y": 2})
    with pytest.raises(ValueError, match="UNCONSTRAINED.*gives no placement"):
        ls.Sharding(mesh, P(P.UNCONSTRAINED))
    with pytest.raises(ValueError, match="unreduced"):
        ls.Sharding(mesh, P("x", unreduced={"y"}))
    with pytest.raises(ValueError, match="nested tuple"):
        ls.Sharding(mesh, ((("x", "y"), "x"),))
    with pytest.raises(ValueError, match="without a spec"):
        ls.Sharding(mesh, None)
    with pytest.raises(ValueError, match="uneven"):
        ls.Sharding(mesh, ("x",), uneven="pad")


def test_equality_and_forms() -> None:
    mesh = ls.Mesh("x=4,y=2")
    assert mesh == ls.Mesh({"x": 4, "y": 2}) == ls.Mesh((4, 2), ("x", "y"), devices=range(8))
    assert mesh != ls.Mesh({"y": 4, "x": 2}) and mesh != "mesh"
    assert mesh.shape == {"x": 4, "y": 2} and mesh.devices[3] == "cpu:3" and mesh.size == 8
    a = ls.Sharding(mesh, P("x", ("y",)))
    assert a.spec == ("x", "y") and a == ls.Sharding(mesh, "x,y") and hash(a) == hash(ls.Sharding(mesh, ["x", "y"]))
    assert ls.Sharding(mesh, ("x",)).same_placement(ls.Sharding(mesh, ("x", None)), (8, 2))
    assert a != ls.Sharding(mesh, "y,x") and a.kind == "named"
    assert a.is_fully_addressable() and not a.is_fully_replicated((8, 2))
    boxes = ls.Sharding.from_boxes([5, 3], (4,), [[(0, 3)], [(2, 4)]])
    assert [(s.id, s.box) for s in boxes.shards(4)] == [(5, ((0, 3),)), (3, ((2, 4),))]
    with pytest.raises(ValueError, match="cover"):
        ls.Sharding.from_boxes([0, 1], (4,), [[(0, 1)], [(2, 4)]])
