"""Runs the loadstone binary for the tests of the command line."""

import importlib.util
import json
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT = 60  # seconds for one command; a hang is a failure


def find_binary() -> Path:
    """LOADSTONE_BIN, the project's .venv, or PATH, in this order."""
    named = os.environ.get("LOADSTONE_BIN")
    candidates = [named] if named else [str(ROOT / ".venv/bin/loadstone"), shutil.which("loadstone")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate).resolve()
    raise FileNotFoundError(f"no loadstone binary: looked at {candidates}; set LOADSTONE_BIN")


BINARY = find_binary()


def environment() -> dict[str, str]:
    """With it a copy of the binary finds the plugins of the package and what they open, wherever it lies."""
    out = dict(os.environ)
    for name, package, below in (("LOADSTONE_PLUGIN_DIR", "loadstone", "lib"), ("LOADSTONE_ARROW_DIR", "pyarrow", ".")):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            out[name] = str(Path(spec.origin).parent / below)
    return out


@dataclass
class Result:
    code: int
    out: bytes
    err: str

    @property
    def json(self) -> dict[str, Any]:
        lines = self.out.decode().splitlines()
        assert len(lines) == 1, f"expected one object on stdout, found {self.out!r}; stderr: {self.err}"
        found = json.loads(lines[0])
        assert isinstance(found, dict) and found["schema"] == 1
        return found

    @property
    def error(self) -> dict[str, Any]:
        body = self.json
        assert body["ok"] is False
        assert {"kind", "message", "file", "expected", "found"} <= set(body["error"])
        return body["error"]


def loadstone(*args: Any, timeout: float = TIME_LIMIT, **popen: Any) -> Result:
    done = subprocess.run(
        [BINARY, *[a if isinstance(a, bytes) else str(a) for a in args]],
        capture_output=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
        **popen,
    )
    return Result(done.returncode, done.stdout, done.stderr.decode(errors="backslashreplace"))


def good(*args: Any, **popen: Any) -> Result:
    result = loadstone(*args, **popen)
    assert result.code == 0, f"exit {result.code}: {result.err}"
    return result


def failing(code: int, *args: Any, **popen: Any) -> Result:
    result = loadstone(*args, **popen)
    assert result.code == code, f"expected exit {code}, found {result.code}: {result.out!r} {result.err}"
    if code != 1:
        assert result.err.startswith("loadstone: error: "), result.err
    return result


def files_in(folder: Path) -> list[str]:
    """Every file below folder, dot files included."""
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if not p.is_dir() or p.is_symlink())


def sparse_npy(path: Path, rows: int, columns: int = 1024) -> None:
    """Zeros that take no space on the disk."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.truncate(file.tell() + rows * columns * 4)
