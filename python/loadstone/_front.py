"""open, plan, load, verify, digest: one function for each arrow of paths → Catalog → Plan → Placement → Verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, overload

from loadstone import _core
from loadstone._core import Catalog, Manifest, MemoryView, Placement, Plan, Sharding, Verdict
from loadstone._dtypes import from_numpy, from_user, host_array
from loadstone._errors import PlacementError, UsageError
from loadstone._progress import Callback, callback_of
from loadstone._shardings import as_sharding

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
ManifestLike: TypeAlias = Manifest | Path | None


def open(  # noqa: A001 - the first arrow
    paths: Path | Iterable[Path],
    *,
    array: str | Sequence[str] | None = None,
    dtype: object = None,
    row_shape: int | Sequence[int] | None = None,
    shape: int | Sequence[int] | None = None,
    offset: int | None = None,
    order: str | None = None,
    raw: bool = False,
    format: str | None = None,  # noqa: A002 - the command line's word
    files_from: Path | None = None,
    allow_gaps: bool = False,
    keep_order: bool = False,
    expect_files: int | None = None,
    expect_rows: int | None = None,
    mixed_formats: bool = False,
    columns: Sequence[str] | None = None,
    fill: int | float | str | None = None,
    strict: bool = False,
    name: str | None = None,
    threads: int = 0,
    progress: bool | Callback | None = None,
) -> Catalog:
    """Finds the arrays in `paths`: files, directories, glob patterns or a list of them. Reads headers only.

    Args:
        paths: str, bytes (names that are not UTF-8) or os.PathLike. A scan is ordered by number, a list stays as it is.
        array: the name or names wanted, where files hold several.
        dtype: what the bytes are, where the file does not say: raw files, `V2`, datetime64 (as "int64").
        row_shape, shape, offset, order: of raw files: a row's shape, or each whole file's; bytes before the elements;
            'C' or 'F'.
        raw, format: treat files as raw, or as the named format, whatever they look like.
        files_from: a file that lists paths, one a line.
        allow_gaps, keep_order, mixed_formats: accept missing numbers, a list that does not ascend, several formats.
        columns: of a table (Parquet): these columns of one dtype as one array of shape (rows, columns).
        fill: value of nulls (Parquet, Arrow) and of absent chunks that have no fill value (zarr).
        strict: an absent chunk is an error (zarr, HDF5), not its fill value.
        expect_files, expect_rows: refuse when the count differs; only this notices a missing last file.
        name: of the stacked array, for messages and `array=`; default: the directory's name or the files' common stem.
        threads: 0 = the cores this process may really use.

    Raises:
        UsageError: options that do not fit, a list out of order.
        DataError: a file that is not what it claims; holes, strays, unequal dtypes or shapes. `.file`, `.expected`, `.found`.
        ResourceError: a path that is missing (MissingFileError) or may not be read (AccessError).
    """
    several = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    arrays = [] if array is None else [array] if isinstance(array, str) else list(array)
    return _core.open_paths(
        [os.fsencode(path) for path in several],
        threads,
        callback_of(progress),
        arrays=arrays,
        dtype=None if dtype is None else from_user(dtype),
        row_shape=row_shape,
        shape=shape,
        offset=offset,
        order=order,
        raw=raw,
        format=format,
        files_from=None if files_from is None else os.fsencode(files_from),
        allow_gaps=allow_gaps,
        keep_order=keep_order,
        expect_files=expect_files,
        expect_rows=expect_rows,
        mixed_formats=mixed_formats,
        columns=None if columns is None else list(columns),
        fill=None if fill is None else str(fill).lower(),
        strict=strict,
        name=name,
    )


def plan(
    ds: Catalog,
    sharding: object = None,
    *,
    array: str | Sequence[str] | None = None,
    strategy: str = "auto",
    memory_budget: int | str | None = None,
    over_decompose: int = 1,
    process: int = 0,
    threads: int = 0,
) -> Plan:
    """Which bytes go where. No file is touched.

    Args:
        ds: what ls.open found.
        sharding: loadstone.Sharding, jax.sharding.Sharding, None (everything on cpu:0), or a dict of them by array name.
        array: a name, several, or '*' for all; may be left out when there is one.
        strategy: 'auto' (least bytes read, then least memory), 'global', 'per_device' or 'per_process'.
        memory_budget: bytes, or text such as '2 GiB'. A plan that needs more host memory is refused (ResourceError).
        over_decompose: windows each device's box is cut into, at least.
        process: whose plan.

    Raises:
        UsageError: a sharding that does not fit the array (names array, dimension, size and axes).
        ResourceError: beyond the memory budget, both numbers named.
    """
    indices, shardings = _requests(ds, sharding, array)
    return _core.plan_arrays(ds, indices, shardings, strategy, budget_of(memory_budget), over_decompose, process, threads)


@overload
def load(
    ds: Catalog,
    sharding: object = None,
    *,
    array: str | None = None,
    strategy: str = "auto",
    memory_budget: int | str | None = None,
    over_decompose: int = 1,
    process: int = 0,
    threads: int = 0,
    verify: bool | str = False,
    manifest: ManifestLike = None,
    out: object = None,
    progress: bool | Callback | None = None,
) -> Placement: ...
@overload
def load(
    ds: Catalog,
    sharding: object = None,
    *,
    array: list[str] | tuple[str, ...],
    strategy: str = "auto",
    memory_budget: int | str | None = None,
    over_decompose: int = 1,
    process: int = 0,
    threads: int = 0,
    verify: bool | str = False,
    manifest: ManifestLike = None,
    out: object = None,
    progress: bool | Callback | None = None,
) -> dict[str, Placement]: ...
def load(
    ds: Catalog,
    sharding: object = None,
    *,
    array: str | Sequence[str] | None = None,
    strategy: str = "auto",
    memory_budget: int | str | None = None,
    over_decompose: int = 1,
    process: int = 0,
    threads: int = 0,
    verify: bool | str = False,
    manifest: ManifestLike = None,
    out: object = None,
    progress: bool | Callback | None = None,
) -> Placement | dict[str, Placement]:
    """Reads every shard of this process into memory of its device. Ctrl-C stops it.

    Takes what ls.plan takes, and
        array: a list of names, or ['*'] for all, gives a dict of Placements by name.
        verify: True proves structure, source and what the devices hold; 'source' leaves out the second pass over memory.
        manifest: a Manifest or the path of one, to verify against.
        out: the destination: one writable C-contiguous array for a single device, or a list with one for each local
            device in mesh order. Shapes and dtypes must be exactly those of the shards; the arrays are kept alive.
        progress: True for a bar, or a function of one Progress, called about ten times a second; what it raises stops
            the load.

    Raises:
        UsageError, DataError, ResourceError: as ls.open and ls.plan; nothing is handed out then.
        PlacementError: the verification failed; carries the verdict.
        KeyboardInterrupt: within a second of Ctrl-C; no thread goes on.
    """
    if array == "*":
        raise UsageError("array='*' may be several: array=['*'] gives a dict of Placements by name")
    indices, shardings = _requests(ds, sharding, array)
    mode = {False: "none", True: "full", "source": "source"}.get(verify, str(verify))
    if mode == "none" and manifest is not None:
        mode = "full"
    parts = _core.load_arrays(
        ds,
        indices,
        shardings,
        strategy,
        budget_of(memory_budget),
        over_decompose,
        process,
        threads,
        mode,
        _manifest(manifest),
        _destinations(out),
        callback_of(progress),
    )
    verdict = parts[0].verdict if parts else None
    if verdict is not None and not verdict.ok:
        raise PlacementError(verdict)
    if array is None or isinstance(array, str):
        return parts[0]
    return {part.name: part for part in parts}


def verify(
    obj: object,
    ds: Catalog,
    *,
    sharding: object = None,
    manifest: ManifestLike = None,
    array: str | None = None,
    threads: int = 0,
    progress: bool | Callback | None = None,
) -> Verdict:
    """Proves that devices hold what they should: shapes and dtypes, every byte against the files or a manifest, replicas.

    Args:
        obj: a Placement, a jax.Array (its addressable shards), or an array in host memory (the whole array).
        ds: the data set it should come from.
        sharding: what obj should follow; default: what it says itself.
        manifest: compare with these digests instead of reading the files again.
        array: which array of ds; default: the only one, or the placement's own.

    Returns:
        A passing Verdict.

    Raises:
        PlacementError: names device, expected box and whose bytes were found; `.verdict` has it all.
    """
    placement = _held(obj, ds, sharding, array)
    if array is None:
        array = placement.name if placement.name in ds.names else ds.arrays[ds.index_of()].name
    verdict = _core.verify_placement(placement, ds, array, _manifest(manifest), threads, callback_of(progress))
    if not verdict.ok:
        raise PlacementError(verdict)
    return verdict


def digest(
    ds: Catalog,
    output: Path | None = None,
    *,
    array: str | Sequence[str] | None = None,
    threads: int = 0,
    progress: bool | Callback | None = None,
) -> Manifest:
    """Digests the arrays of a data set (or those named) by one plain pass; writes the manifest to `output` if given."""
    names = [] if array is None else [array] if isinstance(array, str) else list(array)
    manifest = _core.digest_arrays(ds, names, threads, callback_of(progress))
    if output is not None:
        manifest._write(os.fsencode(output))
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Reads a manifest that ls.digest or `loadstone digest` wrote. DataError when it is malformed."""
    return Manifest._read(os.fsencode(path))


def _requests(ds: Catalog, sharding: object, array: str | Sequence[str] | None) -> tuple[list[int], list[Sharding]]:
    """Positions in the catalog and a sharding for each."""
    if array is None or (isinstance(array, str) and array != "*"):
        indices = [ds.index_of(array)]
    else:
        names = ds.names if list(array) == ["*"] else list(array)
        indices = [ds.index_of(name) for name in names]
        if not indices:
            raise UsageError("array: the list of names is empty")
    arrays = ds.arrays
    shardings = []
    for index in indices:
        info = arrays[index]
        if isinstance(sharding, Mapping):
            if info.name not in sharding:
                raise UsageError(f"sharding: no entry for '{info.name}' among {', '.join(map(repr, sharding))}")
            shardings.append(as_sharding(sharding[info.name], info.shape))
        else:
            shardings.append(as_sharding(sharding, info.shape))
    return indices, shardings


def budget_of(memory_budget: int | str | None) -> int | None:
    return _core.parse_bytes(memory_budget) if isinstance(memory_budget, str) else memory_budget


def _manifest(manifest: ManifestLike) -> Manifest | None:
    if manifest is None or isinstance(manifest, Manifest):
        return manifest
    return read_manifest(manifest)


def _destinations(out: object) -> list[MemoryView] | None:
    if out is None:
        return None
    arrays = list(out) if isinstance(out, (list, tuple)) else [out]
    return [_core.view_array(host_array(array, "out")) for array in arrays]


def _held(obj: object, ds: Catalog, sharding: object, array: str | None) -> Placement:
    """obj as a Placement."""
    if isinstance(obj, Placement):
        if sharding is None:
            return obj
        views = [shard.data for shard in obj.shards]
        positions = [shard.position for shard in obj.shards]
        wanted = as_sharding(sharding, obj.shape)
        return _core.placement_of(obj.name, from_numpy(obj.dtype), obj.shape, wanted, positions, views)
    name = ds.arrays[ds.index_of(array)].name
    if hasattr(obj, "addressable_shards"):
        from loadstone.jax import held_by

        return held_by(obj, sharding, name)
    held = host_array(obj, "verify")
    wanted = as_sharding(sharding, held.shape)
    if wanted.num_devices != 1:
        raise UsageError(f"an array in host memory is on one device: expected a sharding of 1, found {wanted.num_devices}")
    return _core.placement_of(name, from_numpy(held.dtype), held.shape, wanted, [0], [_core.view_array(held)])
