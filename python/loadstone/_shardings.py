"""Shardings of other libraries as ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loadstone._core import Mesh, Sharding
from loadstone._errors import UsageError

_HOST = 1  # DLPack's number


def is_jax(sharding: object) -> bool:
    """True for jax.sharding.Sharding and what looks like one."""
    return hasattr(sharding, "devices_indices_map")


def device_rows(devices: Iterable[Any]) -> list[tuple[int, int, int, int]]:
    """(id, process, memory kind, ordinal) of JAX devices. Loads place bytes in host memory named after the id."""
    return [(device.id, device.process_index, _HOST, device.id % (1 << 31)) for device in devices]


def box_of(index: Sequence[slice], shape: Sequence[int]) -> list[tuple[int, int]]:
    """A tuple of slices as (begin, end) pairs."""
    return [part.indices(extent)[:2] for part, extent in zip(index, shape, strict=True)]


def as_sharding(sharding: object, shape: Sequence[int]) -> Sharding:
    """Ours as it is; None: everything on cpu:0; a jax.sharding.NamedSharding by its mesh and spec, any other JAX
    sharding by its own index map."""
    if sharding is None:
        return Sharding.single()
    if isinstance(sharding, Sharding):
        return sharding
    if isinstance(sharding, Mesh):
        raise UsageError("a mesh without a spec: expected Sharding(mesh, spec)")
    if not is_jax(sharding):
        raise TypeError(f"sharding: expected loadstone.Sharding or jax.sharding.Sharding, found {type(sharding).__name__}")
    return from_jax(sharding, shape)


def from_jax(sharding: Any, shape: Sequence[int]) -> Sharding:
    """A JAX sharding as ours, for arrays of `shape`."""
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    if mesh is not None and spec is not None:
        if not hasattr(mesh, "devices") or not hasattr(mesh.devices, "flat"):
            raise UsageError(f"{type(mesh).__name__} has no devices: expected a jax.sharding.Mesh")
        rows = device_rows(mesh.devices.flat)
        return Sharding(Mesh._of_rows(list(map(str, mesh.axis_names)), mesh.devices.shape, rows), spec)
    index_map = sharding.devices_indices_map(tuple(shape))
    boxes = [box_of(index, shape) for index in index_map.values()]
    return Sharding._from_boxes(device_rows(index_map), shape, boxes)
