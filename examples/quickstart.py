"""From a directory of shard files to proven shards on eight devices, and into NumPy.

Usage: quickstart.py DIR, where DIR is made by `loadstone write DIR --shape 4096,1024 --shards 9 --uneven`.
"""

import sys

import loadstone as ls
import numpy as np


def main(directory: str) -> None:
    catalog = ls.open(directory)
    print(catalog)

    # Rows over the mesh axis x, columns over y: eight boxes on eight CPU devices.
    sharding = ls.Sharding(ls.Mesh({"x": 2, "y": 4}), ("x", "y"))
    placement = ls.load(catalog, sharding)
    for shard in placement.shards:
        # The bytes are the shard's own memory: NumPy looks at them, nothing is copied.
        print(shard.device, shard.index, np.asarray(shard.data).shape)

    verdict = ls.verify(placement, catalog)  # raises PlacementError if any byte is wrong
    print("verified:", verdict.ok)
    print("whole array again:", placement.numpy().shape)


if __name__ == "__main__":
    main(sys.argv[1])
