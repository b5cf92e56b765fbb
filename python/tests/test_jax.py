"""loadstone.jax: zero copy on every host device, and words where JAX would be silent."""

import gc
import pathlib
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import loadstone as ls
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from support import cut_rows, random_array, same_bits, save_npy


def mesh_of(shape: tuple[int, ...], names: tuple[str, ...], order: list[int] | None = None) -> Mesh:
    devices = np.array(jax.devices())
    return Mesh((devices if order is None else devices[order]).reshape(shape), names)


@pytest.fixture
def data(tmp_path: pathlib.Path) -> tuple[ls.Catalog, np.ndarray]:
    rng = np.random.default_rng(7)
    array = random_array(rng, (64, 128), np.dtype(np.float32))
    save_npy(tmp_path, array, cut_rows(rng, 64, 5))
    return ls.open(tmp_path), array


CASES = [
    ((8,), ("x",), P("x"), None),
    ((8,), ("x",), P(None, "x"), [6, 2, 3, 4, 0, 7, 5, 1]),
    ((2, 4), ("x", "y"), P("x", "y"), None),
    ((2, 4), ("x", "y"), P(("y", "x")), [7, 6, 5, 4, 3, 2, 1, 0]),
    ((4, 2), ("rep", "row"), P("row"), None),
    ((8,), ("x",), P(), None),
    ((1, 8), ("x", "y"), P("x", "y"), None),
]


@pytest.mark.parametrize(("shape", "names", "spec", "order"), CASES)
# covers: sharding R4, G8, G9
def test_arrays_equal_numpys_slices(data: Any, shape: Any, names: Any, spec: Any, order: Any) -> None:
    ds, array = data
    sharding = NamedSharding(mesh_of(shape, names, order), spec)
    loaded = ls.jax.load(ds, sharding)
    assert isinstance(loaded, jax.Array) and loaded.sharding == sharding and loaded.shape == (64, 128)
    assert loaded.dtype == np.float32
    for shard in loaded.addressable_shards:
        assert same_bits(np.asarray(shard.data), array[shard.index])
    assert ls.verify(loaded, ds).ok


def test_zero_copy_on_all_eight_devices(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ds, _ = data
    placements = []
    load = ls._front.load
    monkeypatch.setattr(ls._front, "load", lambda *a, **k: placements.append(load(*a, **k)) or placements[-1])
    loaded = ls.jax.load(ds, NamedSharding(mesh_of((2, 4), ("x", "y")), P("x", "y")))
    ours = {shard.id: shard.data.ptr for shard in placements[0].shards}
    theirs = {s.device.id: s.data.unsafe_buffer_pointer() for s in loaded.addressable_shards}
    assert len(theirs) == 8 and theirs == ours


def test_memory_lives_with_the_array(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ds, array = data
    views: list[weakref.ref[Any]] = []
    asarray = np.asarray

    def noting(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, ls.MemoryView):
            views.append(weakref.ref(obj))
        return asarray(obj, *args, **kwargs)

    monkeypatch.setattr(ls.jax.np, "asarray", noting)
    loaded = ls.jax.load(ds, NamedSharding(mesh_of((8,), ("x",)), P("x")))
    monkeypatch.undo()
    gc.collect()
    assert len(views) == 8 and all(view() is not None for view in views)
    part = loaded.addressable_shards[3].data
    total = jax.jit(lambda a: (a == a).sum())(loaded)
    assert same_bits(np.asarray(loaded), array) and int(total) == int((array == array).sum())
    del loaded, total
    gc.collect()
    assert views[3]() is not None and same_bits(np.asarray(part), array[24:32])
    assert [view() is not None for view in views].count(True) == 1, "the other seven are freed"
    del part
    gc.collect()
    assert all(view() is None for view in views)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e4m3fn, np.float16, np.int8, np.bool_, np.complex64])
def test_dtypes(dtype: Any, tmp_path: pathlib.Path) -> None:
    array = np.arange(32).reshape(8, 4).astype(dtype)
    array.tofile(tmp_path / "x.bin")
    ds = ls.open(tmp_path / "x.bin", raw=True, dtype=dtype, row_shape=(4,))
    loaded = ls.jax.load(ds, NamedSharding(mesh_of((8,), ("x",)), P("x")), verify=True)
    assert loaded.dtype == array.dtype and same_bits(np.asarray(loaded), array)
    assert ls.verify(loaded, ds).ok


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
# covers: faults F13
def test_wide_types_need_x64(dtype: str, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "w.npy", np.arange(16).astype(dtype))
    ds = ls.open(tmp_path / "w.npy")
    sharding = NamedSharding(mesh_of((8,), ("x",)), P("x"))
    with pytest.raises(ValueError, match=f"'w'.*{dtype} needs jax_enable_x64"):
        ls.jax.load(ds, sharding)
    with jax.enable_x64(True):
        loaded = ls.jax.load(ds, sharding)
        assert loaded.dtype == np.dtype(dtype) and (np.asarray(loaded) == np.arange(16)).all()


def test_uneven_is_refused_with_words(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "u.npy", np.arange(10, dtype=np.int32))
    ds = ls.open(tmp_path / "u.npy")
    sharding = NamedSharding(mesh_of((8,), ("x",)), P("x"))
    with pytest.raises(ValueError, match=r"'u': dimension 0 \(size 10\).*JAX has no uneven shards"):
        ls.jax.load(ds, sharding)
    placement = ls.load(ds, ls.Sharding(ls.Mesh({"x": 8}), ("x",), uneven="ceil"))
    with pytest.raises(ValueError, match="JAX has no uneven shards"):
        ls.jax.array(placement, sharding)
    with pytest.raises(TypeError, match=r"jax\.sharding"):
        ls.jax.load(ds, ls.Sharding(ls.Mesh({"x": 2}), ("x",)))  # type: ignore[arg-type]


def test_other_shardings(data: Any) -> None:
    ds, array = data
    device = jax.devices()[5]
    loaded = ls.jax.load(ds, SingleDeviceSharding(device))
    assert loaded.devices() == {device} and same_bits(np.asarray(loaded), array)
    assert ls.verify(loaded, ds).ok


def test_placements_are_copied_unless_aliasing_is_asked_for(data: Any) -> None:
    ds, array = data
    sharding = NamedSharding(mesh_of((8,), ("x",)), P("x"))
    placement = ls.load(ds, sharding)
    copied = ls.jax.array(placement, sharding)
    aliased = ls.jax.array(placement, sharding, may_alias=True)
    pointers = [shard.data.ptr for shard in placement.shards]
    assert [s.data.unsafe_buffer_pointer() for s in aliased.addressable_shards] == pointers
    assert not set(pointers) & {s.data.unsafe_buffer_pointer() for s in copied.addressable_shards}
    np.asarray(placement.shards[0].data)[:] = 0
    assert same_bits(np.asarray(copied), array)
    with pytest.raises(ValueError, match="should hold"):
        ls.jax.array(placement, NamedSharding(mesh_of((8,), ("x",)), P(None, "x")))
    with pytest.raises(ValueError, match="1 devices"):
        ls.jax.array(placement, SingleDeviceSharding(jax.devices()[0]))


# covers: sharding R5
def test_wrong_arrays_are_found(data: Any, tmp_path: pathlib.Path) -> None:
    ds, array = data
    right = NamedSharding(mesh_of((8,), ("x",)), P("x"))
    wrong_order = NamedSharding(mesh_of((8,), ("x",), [1, 0, 2, 3, 4, 5, 6, 7]), P("x"))
    with pytest.raises(ls.PlacementError) as caught:
        ls.verify(jax.device_put(array, wrong_order), ds, sharding=right)
    assert sorted(a.id for a in caught.value.verdict.accusations) == [0, 1]
    changed = array.copy()
    changed.view(np.uint32)[20, 5] ^= 1
    with pytest.raises(ls.PlacementError) as caught:
        ls.verify(jax.device_put(changed, right), ds)
    (accusation,) = caught.value.verdict.accusations
    assert accusation.id == 2 and accusation.first_index == (20, 5)


# covers: faults F13
def test_another_shape_or_dtype_is_a_verdict(data: Any) -> None:
    ds, array = data
    sharding = NamedSharding(mesh_of((8,), ("x",)), P("x"))
    for other in (array[:32], array.view(np.int32)):
        with pytest.raises(ls.PlacementError) as caught:
            ls.verify(jax.device_put(other, sharding), ds)
        assert caught.value.verdict.levels[0].level.startswith("L0") and not caught.value.verdict.levels[0].ok
    with pytest.raises(ls.PlacementError, match="int32"):
        ls.verify(jax.device_put(array.view(np.int32), sharding), ds)
    with pytest.raises(ls.PlacementError, match=r"\(32, 128\)"):
        ls.verify(array[:32], ds)


def test_arrays_of_a_computation_and_many_arrays(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((8, 8), np.float32))
    ds = ls.open(tmp_path / "a.npy")
    sharding = NamedSharding(mesh_of((2, 4), ("x", "y")), P("y"))
    assert ls.verify(jnp.zeros((8, 8)), ds).ok
    assert float(jax.jit(jnp.sum)(ls.jax.load(ds, sharding))) == 0
