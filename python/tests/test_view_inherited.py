"""What a view passes on and what it refuses: streams of CUDA, order, the read-only flag. Traps that need no driver."""

from typing import Any

import loadstone as ls
import numpy as np
import pytest
from test_view_traps import Producer, floats


class OnCuda(Producer):
    asked: Any = "nothing"

    def __init__(self) -> None:
        super().__init__(floats(), kind=2)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        self.asked = stream
        return self.capsule


# covers: memory_view T4
def test_trap_4_streams_of_cuda() -> None:
    for stream, passed in ((None, 1), (1, 1), (2, 2), (-1, -1), (77, 77)):
        source = OnCuda()
        ls.MemoryView(source, stream=stream, verify=False)
        assert source.asked == passed
    for stream in (0, -2):
        source = OnCuda()
        with pytest.raises(ValueError, match=f"stream {stream}"):
            ls.MemoryView(source, stream=stream, verify=False)
        assert source.asked == "nothing"  # what is not lawful is not passed on
    view = ls.MemoryView(OnCuda(), stream=-1, verify=False)
    for stream in (None, 1, 2, -1, 77):
        view.__dlpack__(stream=stream, max_version=(1, 3))
    for stream in (0, -2):
        with pytest.raises(ValueError, match=f"stream {stream}"):
            view.__dlpack__(stream=stream, max_version=(1, 3))


# covers: memory_view T10
def test_trap_10_slices_and_casts_inherit_order_and_flag() -> None:
    class Source:
        __cuda_array_interface__ = {
            "data": (0x1000, True), "shape": (4,), "typestr": "<f4", "version": 3, "stream": 9,
        }  # fmt: skip

    view = ls.MemoryView(Source(), verify=False)
    for child in (view.byte_slice(slice(4, 8)), view.bytes(), view.byte_slice(slice(8)).byte_slice(slice(2))):
        assert child.readonly and child.order == ("stream", 9) and child.cai["stream"] == 9


# covers: memory_view T23
def test_trap_23_nothing_is_written_into_a_read_only_view() -> None:
    view = ls.MemoryView(bytes(16))
    with pytest.raises(TypeError, match="read-only"):
        memoryview(view)[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(view)[0] = 1
