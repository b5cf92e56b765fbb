"""Loading into jax.Array. JAX is imported by the functions that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loadstone import _core
from loadstone._core import Catalog, Placement, Sharding
from loadstone._dtypes import from_numpy
from loadstone._errors import UsageError
from loadstone._progress import Callback
from loadstone._shardings import as_sharding, box_of, from_jax, is_jax

if TYPE_CHECKING:
    import jax

    from loadstone._front import ManifestLike

__all__ = ["array", "load"]


def load(
    ds: Catalog,
    sharding: jax.sharding.Sharding,
    *,
    array: str | None = None,
    strategy: str = "auto",
    memory_budget: int | str | None = None,
    over_decompose: int = 1,
    threads: int = 0,
    verify: bool | str = False,
    manifest: ManifestLike = None,
    progress: bool | Callback | None = None,
) -> jax.Array:
    """Loads an array into a jax.Array with this sharding. One process; on host devices without a copy.

    Takes what ls.load takes. The buffers that were read into become the array's own and live as long as it does.

    Raises:
        UsageError: a 64-bit dtype while jax_enable_x64 is off; a dimension that does not divide (JAX has no uneven
            tiles); a sharding over several processes.
    """
    from loadstone import _front

    info = ds.arrays[ds.index_of(array)]
    _check_width(info.dtype, info.name)
    if not is_jax(sharding):
        raise TypeError(f"sharding: expected jax.sharding.Sharding, found {type(sharding).__name__}")
    _check_one_process(sharding)
    ours = _checked(sharding, info.shape, info.name)
    placement = _front.load(
        ds,
        ours,
        array=info.name,
        strategy=strategy,
        memory_budget=memory_budget,
        over_decompose=over_decompose,
        threads=threads,
        verify=verify,
        manifest=manifest,
        progress=progress,
    )
    return _hand_over(placement, sharding, may_alias=True)


def array(placement: Placement, sharding: jax.sharding.Sharding, *, may_alias: bool = False) -> jax.Array:
    """A Placement's shards as a jax.Array with a sharding of the same boxes.

    Copies, for the placement's memory stays writable; with may_alias=True host devices share it, and whoever writes to
    it changes the array.

    Raises:
        UsageError: tiles of different shapes, which JAX does not have; boxes that differ from the sharding's; a 64-bit
            dtype while jax_enable_x64 is off.
    """
    _check_width(placement.dtype, placement.name)
    _check_one_process(sharding)
    shapes = {shard.shape for shard in placement.sharding.shards(placement.shape)}
    if len(shapes) > 1:
        raise UsageError(
            f"'{placement.name}': JAX has no uneven shards: found shapes {', '.join(map(str, sorted(shapes)))}; use the "
            "views of placement.shards"
        )
    return _hand_over(placement, sharding, may_alias)


def _hand_over(placement: Placement, sharding: jax.sharding.Sharding, may_alias: bool) -> jax.Array:
    import jax

    index_map = sharding.addressable_devices_indices_map(placement.shape)
    if len(index_map) != len(placement.shards):
        raise UsageError(
            f"'{placement.name}': the sharding has {len(index_map)} devices, the placement {len(placement.shards)} shards"
        )
    buffers = []
    for shard, (device, index) in zip(placement.shards, index_map.items(), strict=True):
        wanted = tuple(box_of(index or (), placement.shape))
        if wanted != shard.box:
            raise UsageError(f"'{placement.name}': {device} should hold {wanted}, the placement has {shard.box} there")
        view = np.asarray(shard.data)
        buffers.append(jax.device_put(view if may_alias else view.copy(), device, may_alias=True))
    return jax.make_array_from_single_device_arrays(placement.shape, sharding, buffers)


def held_by(obj: Any, sharding: object, name: str) -> Placement:
    """The addressable shards of a jax.Array, under what `sharding` (default: its own) says each should hold."""
    shape = tuple(obj.shape)
    wanted = as_sharding(sharding, shape) if sharding is not None else from_jax(obj.sharding, shape)
    position_of = {device_id: position for position, device_id in enumerate(wanted.mesh.device_ids)}
    positions, views = [], []
    for shard in obj.addressable_shards:
        if shard.device.id not in position_of:
            raise UsageError(f"'{name}': {shard.device} holds a shard and is not in the sharding")
        positions.append(position_of[shard.device.id])
        views.append(_core.view_array(np.asarray(shard.data)))
    return _core.placement_of(name, from_numpy(obj.dtype), shape, wanted, positions, views)


def _checked(sharding: Any, shape: tuple[int, ...], name: str) -> Sharding:
    """The JAX sharding as ours, or an error in our words for what does not divide."""
    ours = from_jax(sharding, shape)
    try:
        ours.check(shape, name)
    except UsageError as error:
        if "does not divide" not in str(error):
            raise
        raise UsageError(f"{error}, but JAX has no uneven shards: use loadstone.load and the views of its shards") from None
    return ours


def _check_width(dtype: np.dtype[Any], name: str) -> None:
    import jax

    wide = dtype.name in ("int64", "uint64", "float64", "complex128")
    if wide and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise UsageError(
            f"'{name}': {dtype.name} needs jax_enable_x64, which is off: JAX would narrow it without a word; "
            'jax.config.update("jax_enable_x64", True) turns it on'
        )


def _check_one_process(sharding: jax.sharding.Sharding) -> None:
    if not sharding.is_fully_addressable:
        raise UsageError("a sharding over several processes: each loads its own shards only when all devices are its own")
