#!/usr/bin/env python3
"""The placement digest PD61, written from its definition alone (docs/digest.md). Slow, and shares no code with the library.

    pd61.py vectors                                    the published vectors
    pd61.py npy FILE [--box 0:2,4:8]                   an array in a little-endian C-order .npy file, or a box of it
    pd61.py raw FILE --shape 3,4 --itemsize 2 [--box …]    headerless C-order bytes
    pd61.py tile FILE --shape 3,4 --itemsize 2 --box …     the file holds only the bytes of the box
"""

import argparse
import ast
import itertools
import struct

P = 2**61 - 1
M64 = 2**64 - 1
KEYS = (0x0123456789ABCDEF, 0xFEDCBA9876543210)


def splitmix(z):
    z = (z + 0x9E3779B97F4A7C15) & M64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def factor(key, t, i):
    inner = splitmix(key ^ (((t + 1) * 0xD1342543DE82EF95) & M64))
    low = splitmix((inner + i * 0x9E3779B97F4A7C15) & M64) & P
    return 0 if low == P else low


def product(values):
    out = 1
    for value in values:
        out *= value
    return out


def row_dim(shape, itemsize):
    for m in range(len(shape), -1, -1):
        if 0 not in shape and product(shape[m:]) * itemsize >= 4096:
            return m
    return 0


def digest(shape, itemsize, box, element_bytes, keys=KEYS):
    """box: (begin, end) for each dimension; element_bytes(index) gives the bytes of one element."""
    m = row_dim(shape, itemsize)
    sums = [0] * len(keys)
    for index in itertools.product(*(range(b, e) for b, e in box)):
        in_row = 0
        for d in range(m, len(shape)):
            in_row = in_row * shape[d] + index[d]
        for b, byte in enumerate(element_bytes(index)):
            position = in_row * itemsize + b  # of the byte in its row
            word = byte << (8 * (position % 4))
            k = position // 4
            for lane, key in enumerate(keys):
                term = word * factor(key, 61, k >> 10) * factor(key, 62, k & 1023)
                for t in range(m):
                    term = term * factor(key, t, index[t]) % P
                sums[lane] = (sums[lane] + term) % P
    return sums


def digest_bytes(shape, itemsize, data, box=None, keys=KEYS):
    """data: C-order bytes of the whole array."""

    def element_bytes(index):
        at = 0
        for d, i in enumerate(index):
            at = at * shape[d] + i
        return data[at * itemsize : (at + 1) * itemsize]

    return digest(shape, itemsize, box or [(0, n) for n in shape], element_bytes, keys)


def digest_tile(shape, itemsize, data, box, keys=KEYS):
    """data: C-order bytes of the box alone."""

    def element_bytes(index):
        at = 0
        for (begin, end), i in zip(box, index):
            at = at * (end - begin) + i - begin
        return data[at * itemsize : (at + 1) * itemsize]

    return digest(shape, itemsize, box, element_bytes, keys)


def text(sums):
    return "-".join(f"{s:016x}" for s in sums)


def read_npy(path):
    with open(path, "rb") as file:
        magic = file.read(8)
        if magic[:6] != b"\x93NUMPY":
            raise SystemExit(f"{path}: not a .npy file")
        length = struct.unpack("<H" if magic[6] == 1 else "<I", file.read(2 if magic[6] == 1 else 4))[0]
        header = ast.literal_eval(file.read(length).decode("latin-1"))
        if header["fortran_order"] or header["descr"].startswith(">"):
            raise SystemExit(f"{path}: only little-endian C order is read here")
        return header["shape"], int(header["descr"][2:]), file.read()


def pattern(count):
    return bytes((37 * i + 11) % 256 for i in range(count))


def ints(value):
    return tuple(int(part) for part in value.split(",") if part)


def boxes(value):
    return [tuple(int(part) for part in entry.split(":")) for entry in value.split(",") if entry]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["vectors", "npy", "raw", "tile"])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--shape", type=ints, default=())
    parser.add_argument("--itemsize", type=int, default=1)
    parser.add_argument("--box", type=boxes)
    args = parser.parse_args()
    if args.what == "vectors":
        for shape, itemsize in (((), 4), ((2, 3, 5), 2), ((4, 3, 700), 2), ((7, 12301), 1)):
            sums = digest_bytes(shape, itemsize, pattern(product(shape) * itemsize))
            print(f"{shape} x {itemsize}, row dimension {row_dim(shape, itemsize)}: {text(sums)}")
        return
    if args.what == "npy":
        shape, itemsize, data = read_npy(args.file)
        print(text(digest_bytes(shape, itemsize, data, args.box)))
        return
    with open(args.file, "rb") as file:
        data = file.read()
    if args.what == "raw":
        print(text(digest_bytes(args.shape, args.itemsize, data, args.box)))
    else:
        print(text(digest_tile(args.shape, args.itemsize, data, args.box)))


if __name__ == "__main__":
    main()
