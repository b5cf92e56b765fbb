"""write_dataset and convert: what makes files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from loadstone import _core
from loadstone._core import Catalog
from loadstone._dtypes import from_user
from loadstone._front import Path, budget_of, open
from loadstone._progress import Callback, callback_of


def write_dataset(
    directory: Path,
    shape: int | Sequence[int],
    dtype: object = "float32",
    *,
    shards: int = 1,
    uneven: bool = False,
    seed: int = 0,
    format: str = "npy",  # noqa: A002 - the command line's word
    name: str = "data",
    compress: str | None = None,
    chunks: int | Sequence[int] | None = None,
    replace: bool = False,
    threads: int = 0,
    progress: bool | Callback | None = None,
) -> list[str]:
    """Writes a made-up data set of `shards` files, as `loadstone write` does; returns their paths.

    An element depends on seed and its position alone, so any number of files holds the same array. UsageError when the
    directory is not empty, unless `replace`.

    Args:
        format: 'npy', 'raw', 'npz', 'safetensors', 'arrow', 'parquet', 'hdf5', 'zarr' (version 3) or 'zarr2'.
        name: of the array, in files that hold names.
        compress: a codec of the format, with a level if wanted: 'deflate', 'zstd:5', …
        chunks: zarr, hdf5: shape of a chunk; arrow, parquet: rows of a group.
    """
    return _core.write_dataset(
        os.fsencode(directory),
        shape,
        from_user(dtype),
        callback_of(progress),
        threads=threads,
        shards=shards,
        uneven=uneven,
        seed=seed,
        format=format,
        name=name,
        compress=compress,
        chunks=chunks,
        replace=replace,
    )


@dataclass(frozen=True)
class Converted:
    """What convert made."""

    format: str
    files: list[str]
    names: list[str]  #: of the arrays
    rows: list[list[int]]  #: of each array in each file: rows[file][array]
    file_bytes: int
    peak_bytes: int  #: of memory, as planned
    digests: list[str]  #: of the arrays, when verified
    notes: list[str]


def convert(
    src: Catalog | Path | Iterable[Path],
    dst: Path,
    *,
    format: str | None = None,  # noqa: A002 - the command line's word
    shards: int | None = None,
    rows_per_shard: int | None = None,
    shard_bytes: int | str | None = None,
    array: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    compress: str | None = None,
    chunks: int | Sequence[int] | None = None,
    replace: bool = False,
    verify: bool = False,
    memory_budget: int | str | None = None,
    threads: int = 0,
    progress: bool | Callback | None = None,
    **options: Any,
) -> Converted:
    """Writes a data set anew: in another format, or as other shards. Streams in bounded memory.

    The destination appears whole or not at all: it is made in a hidden folder beside it, which is renamed last.

    Args:
        src: a Catalog, or paths as ls.open takes them, with its `options`.
        dst: a folder for shards, or one file (a store) when it ends in an extension of the format.
        format: 'npy', 'raw', 'npz', 'safetensors', 'arrow', 'parquet', 'hdf5', 'zarr' or 'zarr2'; default: what dst's
            extension says, else the source's.
        shards, rows_per_shard, shard_bytes: how the rows are cut, one of them; default: as the source.
        array, columns: only these arrays; these columns of a table as one array.
        compress, chunks: as ls.write_dataset.
        replace: replace dst, when an earlier call has made it or when it is a file.
        verify: compare digests of what was read and of what was written before dst is put in place.
        memory_budget: bytes or text such as '2 GiB'; refused when it is too small.

    Raises:
        UsageError: what the format cannot hold; a dst that exists; unequal rows where equal ones are needed.
        DataError: a source that is not what it claims; a file that reads back otherwise than it was written.
        ResourceError: no space; a budget that is too small.
    """
    names = [] if array is None else [array] if isinstance(array, str) else list(array)
    if isinstance(src, Catalog):
        if options or columns is not None:
            raise TypeError(f"convert: a Catalog is open already: {', '.join(options) or 'columns'} is for paths")
        ds = src
    else:
        ds = open(src, array=names or None, columns=columns, threads=threads, **options)
    made = _core.convert_arrays(
        ds,
        [ds.index_of(name) for name in names],
        os.fsencode(dst),
        callback_of(progress),
        threads=threads,
        format=format,
        shards=shards,
        rows_per_shard=rows_per_shard,
        shard_bytes=budget_of(shard_bytes),
        compress=compress,
        chunks=chunks,
        replace=replace,
        verify=verify,
        memory_budget=budget_of(memory_budget),
    )
    return Converted(**made)
