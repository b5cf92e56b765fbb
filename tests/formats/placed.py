"""What every format is held to: each device's bytes are those of NumPy's slice, and the digests agree."""

from typing import Any

import loadstone as ls
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def native(array: Array) -> Array:
    """The same values in this machine's byte order and C order, as arrays are placed."""
    return array.astype(array.dtype.newbyteorder("="), order="C")


def check_placed(
    ds: ls.Catalog, name: str | None, want: Array, axes: dict[str, int], spec: Any = None, **options: Any
) -> None:
    """Loads array `name` onto a mesh, verifies it, and compares every shard with `want`, bit by bit. Without a spec
    dimension 0 goes over the axis x. The options are those of ls.load."""
    if spec is None:
        spec = ("x",) if want.ndim else ()
    placement = ls.load(ds, ls.Sharding(ls.Mesh(axes), spec, uneven="ceil"), array=name, verify=True, **options)
    for shard in placement.shards:
        assert np.asarray(shard.data).tobytes() == native(want)[shard.index].tobytes(), (name, shard)
