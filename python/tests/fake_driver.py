"""The stand-in CUDA driver (tests/fakes/cuda_driver.cc) from Python: memory, streams and events by ctypes.

A test file for it is named on_fake_driver_*.py and run by test_view_driver.py in a process of its own.
"""

import ctypes
import os
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
P, U64, I32 = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int


def library() -> pathlib.Path | None:
    """The newest that was built, with the C++ tests."""
    built = sorted(ROOT.glob("build/*/tests/fake_cuda/libcuda.so.1"), key=lambda path: path.stat().st_mtime)
    return built[-1] if built else None


def environment(options: str) -> dict[str, str]:
    found = library()
    assert found is not None
    return os.environ | {"LD_LIBRARY_PATH": str(found.parent), "LOADSTONE_FAKE_CUDA": options}


class Driver:
    """The functions a test calls, by name: driver.call("cuMemFree", U64(pointer))."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.contexts = []
        for ordinal in range(self.out(I32, "cuDeviceGetCount")):
            self.contexts.append(self.out(P, "cuDevicePrimaryCtxRetain", ordinal))

    def call(self, name: str, *arguments: Any) -> None:
        function = P()
        assert self.library.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), 12000, U64(0), None) == 0
        result = ctypes.CFUNCTYPE(I32)(function.value)(*arguments)
        assert result == 0, f"{name}: {result}"

    def out(self, kind: Any, name: str, *arguments: Any) -> int:
        """What the function writes to its first parameter."""
        value = kind()
        self.call(name, ctypes.byref(value), *arguments)
        return int(value.value)

    def count(self, name: str) -> int:
        """How often a function was called, by whomever."""
        counted = self.library.loadstone_fake_cuda_count
        counted.restype = ctypes.c_int64
        return int(counted(name.encode()))

    def current(self, ordinal: int) -> None:
        self.call("cuCtxPushCurrent", P(self.contexts[ordinal]))

    def leave(self) -> None:
        self.call("cuCtxPopCurrent", ctypes.byref(P()))

    def allocate(self, ordinal: int, size: int) -> int:
        self.current(ordinal)
        try:
            return self.out(U64, "cuMemAlloc", ctypes.c_size_t(size))
        finally:
            self.leave()
