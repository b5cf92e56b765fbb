"""Loadstone: puts every shard of an on-disk array on the right device, and proves it.

    import loadstone as ls

    ds = ls.open("shards/")                                   # Catalog: what is there
    sharding = ls.Sharding(ls.Mesh({"x": 2, "y": 4}), ("x", "y"))
    print(ls.plan(ds, sharding))                              # Plan: which bytes go where
    placed = ls.load(ds, sharding, verify=True)               # Placement: .shards[i].device .index .data
    ls.verify(placed, ds)                                     # Verdict, or PlacementError

Errors: UsageError (a ValueError), DataError (a ValueError), ResourceError (an OSError), InternalError (a RuntimeError),
PlacementError (a RuntimeError that carries the verdict), PlaceMismatchError (a BufferError that carries the report).
"""

from loadstone import jax
from loadstone._core import (
    Accusation,
    ArrayInfo,
    Catalog,
    Drawing,
    LevelResult,
    Manifest,
    ManifestArray,
    MemoryView,
    Mesh,
    PlacedShard,
    Placement,
    PlaceReport,
    Plan,
    Progress,
    Shard,
    Sharding,
    Verdict,
)
from loadstone._core import version as _version
from loadstone._errors import (
    AccessError,
    CopyRequiredError,
    DataError,
    InternalError,
    MissingFileError,
    PlacementError,
    PlaceMismatchError,
    ResourceError,
    UsageError,
)
from loadstone._front import digest, load, open, plan, read_manifest, verify
from loadstone._span import Span, is_span
from loadstone._write import Converted, convert, write_dataset

__version__: str = _version()

__all__ = [
    "AccessError",
    "Accusation",
    "ArrayInfo",
    "Catalog",
    "Converted",
    "CopyRequiredError",
    "DataError",
    "Drawing",
    "InternalError",
    "LevelResult",
    "Manifest",
    "ManifestArray",
    "MemoryView",
    "Mesh",
    "MissingFileError",
    "PlaceMismatchError",
    "PlaceReport",
    "PlacedShard",
    "Placement",
    "PlacementError",
    "Plan",
    "Progress",
    "ResourceError",
    "Shard",
    "Sharding",
    "Span",
    "UsageError",
    "Verdict",
    "__version__",
    "convert",
    "digest",
    "is_span",
    "jax",
    "load",
    "open",
    "plan",
    "read_manifest",
    "verify",
    "write_dataset",
]
