# What the generated stub cannot know: the buffer protocol before Python 3.12, and that None for __hash__ is meant.
_core.MemoryView.__hash__:
    __hash__: None  # type: ignore[assignment]

_core.MemoryView.__suffix__:
    def __buffer__(self, flags: int, /) -> memoryview: ...
