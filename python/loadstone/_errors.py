"""The exceptions, one for each kind of error of the C++ library. See docs/errors.md."""

from __future__ import annotations

import errno as _errno
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadstone._core import PlaceReport, Verdict


class _Facts(Exception):
    """What a program can act on without parsing the message. Empty where it does not apply."""

    kind: str = ""
    file: str = ""
    expected: str = ""
    found: str = ""


class UsageError(ValueError, _Facts):
    """The caller asked for the impossible: options, spec, mesh, a dimension that does not divide."""

    kind = "usage"


class DataError(ValueError, _Facts):
    """A file is not what it claims: truncated, malformed, of another shape or dtype than its siblings."""

    kind = "data"


class ResourceError(OSError, _Facts):
    """The system said no: a path, a permission, memory, the memory budget. `errno` and `filename` where there are any."""

    kind = "system"

    def __init__(self, message: str, errno: int = 0, file: str = "") -> None:
        if errno:
            super().__init__(errno, message, file or None)
        else:
            super().__init__(message)
        self._message = message
        self.file = file

    def __str__(self) -> str:
        return self._message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._message, self.errno or 0, self.file), self.__dict__


class MissingFileError(ResourceError, FileNotFoundError):
    """A path does not exist, or nothing matches a pattern."""


class AccessError(ResourceError, PermissionError):
    """A file or directory may not be read or written."""


class InternalError(RuntimeError, _Facts):
    """A bug of loadstone. Please report it."""

    kind = "internal"


class PlacementError(RuntimeError):
    """A verification failed. The text is the verdict's; `verdict` is the value."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


class PlaceMismatchError(BufferError):
    """Memory is not where its source says. `report` holds the claim and the CUDA driver's answer."""

    def __init__(self, report: PlaceReport) -> None:
        super().__init__(report.reason)
        self.report = report


class CopyRequiredError(BufferError, ValueError):
    """copy=False where only a copy would do. The array API standard has it as either of the two."""


_BY_ERRNO: dict[int, type[ResourceError]] = {
    _errno.ENOENT: MissingFileError,
    _errno.EACCES: AccessError,
    _errno.EPERM: AccessError,
}


def make(kind: str, message: str, errno: int, file: str, expected: str, found: str) -> BaseException:
    """The exception for an error of the C++ library."""
    error: UsageError | DataError | ResourceError | InternalError
    if kind == "system":
        error = _BY_ERRNO.get(errno, ResourceError)(message, errno, file)
    elif kind == "usage":
        error = UsageError(message)
    elif kind == "data":
        error = DataError(message)
    else:
        error = InternalError(message)
    error.file = file
    error.expected = expected
    error.found = found
    return error
