"""Cases with files beyond 2 GiB: sparse, so that they cost little disk. Run with LOADSTONE_BIG=1."""

import os
from pathlib import Path

import pytest
from loadstone_cli import good

BYTES = (2 << 30) + 4096
READ_MOST = 0x7FFFF000  # what Linux moves in one read(2)


# covers: loading R11
def test_big_over_2gib_read(tmp_path: Path) -> None:
    if os.environ.get("LOADSTONE_BIG") != "1":
        pytest.skip("large files: set LOADSTONE_BIG=1")
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({BYTES},), }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    probes = {at: bytes([n + 1]) * 16 for n, at in enumerate((0, READ_MOST - 8, (2 << 30) - 8, BYTES - 16))}
    with (tmp_path / "s0.npy").open("wb") as file:
        start = file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        file.truncate(start + BYTES)
        for at, content in probes.items():
            file.seek(start + at)
            file.write(content)
    good("load", "s0.npy", "--verify", "--window", "1GiB", "--dump", "out.bin", cwd=tmp_path, timeout=600)
    with (tmp_path / "out.bin").open("rb") as file:
        assert os.fstat(file.fileno()).st_size == BYTES
        for at, content in probes.items():
            file.seek(at)
            assert file.read(16) == content
        file.seek(READ_MOST + 8)
        assert file.read(16) == bytes(16)
