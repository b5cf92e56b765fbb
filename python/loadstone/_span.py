"""What pylibcudf calls a span: an address and a number of bytes, in host or device memory."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Span", "is_span"]


@runtime_checkable
class Span(Protocol):
    """Anything with an address and a size. Whether an object is one, is_span() says: isinstance runs its properties."""

    @property
    def ptr(self) -> int:
        """Address of the first byte."""
        ...

    @property
    def size(self) -> int:
        """Bytes."""
        ...


def is_span(obj: object) -> bool:
    """True if `ptr` and `size` of obj can be read. Never raises: a property that does makes it False."""
    try:
        _ = obj.ptr  # type: ignore[attr-defined]
        _ = obj.size  # type: ignore[attr-defined]
    except Exception:
        return False
    return True
