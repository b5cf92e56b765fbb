"""When bytes may be touched: imports and exports of pending memory on the stand-in driver, whose streams run late.

Every test of a wait writes by a long queue on one stream and reads on another: without the wait the reader is there
long before.
"""

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import fake_driver
import loadstone as ls
import numpy as np
import pytest
from test_view_traps import Producer, exported

driver = fake_driver.Driver()
SIZE = 64
CUDA, PINNED = 2, 3


class Interface:
    def __init__(self, address: int, **fields: Any) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": (SIZE,), "typestr": "|u1", "version": 3,
        } | fields  # fmt: skip


class Tensor(Producer):
    """DLPack on cuda:ordinal; notes the stream that it was given and the GPU that was current."""

    def __init__(self, address: int, ordinal: int = 0, error: type[Exception] | None = None) -> None:
        super().__init__(np.zeros(SIZE, "u1"), data=address, kind=CUDA, id=ordinal, code=1)
        self.ordinal, self.error = ordinal, error

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self.ordinal)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        self.stream, self.current = stream, driver.out(ctypes.c_int, "cuCtxGetDevice")
        if self.error:
            raise self.error
        return self.capsule


@pytest.fixture(autouse=True)
def current() -> Iterator[None]:
    driver.current(0)
    yield
    driver.leave()


@pytest.fixture
def streams() -> Iterator[tuple[int, int]]:
    made = [driver.out(ctypes.c_void_p, "cuStreamCreate", 1) for _ in range(2)]
    yield (made[0], made[1])
    for stream in made:
        driver.call("cuStreamDestroy", ctypes.c_void_p(stream))


def write_late(address: int, stream: int) -> None:
    """Ends with bytes of 7 there, after some 60 ms."""
    for i in range(60):
        value = 7 if i == 59 else 1
        driver.call("cuMemsetD8Async", ctypes.c_uint64(address), value, ctypes.c_size_t(SIZE), ctypes.c_void_p(stream))


def read_on(address: int, stream: int) -> bytes:
    out = ctypes.create_string_buffer(SIZE)
    source, size, handle = ctypes.c_uint64(address), ctypes.c_size_t(SIZE), ctypes.c_void_p(stream)
    driver.call("cuMemcpyDtoHAsync", out, source, size, handle)
    driver.call("cuStreamSynchronize", handle)
    return out.raw


def waits() -> int:
    return sum(driver.count(f"cu{name}") for name in (
        "EventCreate", "EventRecord", "EventSynchronize", "StreamWaitEvent", "StreamSynchronize"))  # fmt: skip


SEVENS, LATE = b"\7" * SIZE, pytest.mark.parametrize("how", ["stream", "event", "after"])


def pending(address: int, how: str, stream: int) -> Any:
    """A source whose bytes are written late on `stream`, and what after= is to say of it."""
    write_late(address, stream)
    if how == "stream":
        return Interface(address, stream=stream), None
    if how == "after":
        return Interface(address), stream
    event = driver.out(ctypes.c_void_p, "cuEventCreate", 2)
    driver.call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))
    return Interface(address), ("event", event)


# covers: memory_view B6
def test_without_a_wait_the_reader_is_early(streams: tuple[int, int]) -> None:
    address = driver.allocate(0, SIZE)
    write_late(address, streams[0])
    assert read_on(address, streams[1]) != SEVENS


# covers: memory_view B6, 1.1
@LATE
def test_an_import_makes_the_callers_stream_wait(streams: tuple[int, int], how: str) -> None:
    address = driver.allocate(0, SIZE)
    source, after = pending(address, how, streams[0])
    view = ls.MemoryView(source, after=after, stream=streams[1])
    assert view.order == ("stream", streams[1])
    assert read_on(address, streams[1]) == SEVENS


# covers: memory_view B6, 1.1
def test_a_stream_object_is_a_stream(streams: tuple[int, int]) -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, streams[1])

    address = driver.allocate(0, SIZE)
    source, _ = pending(address, "stream", streams[0])
    ls.MemoryView(source, stream=Stream())
    assert read_on(address, streams[1]) == SEVENS


# covers: memory_view B6, T10
@LATE
@pytest.mark.parametrize("sliced", [False, True])
def test_an_export_makes_the_consumers_stream_wait(streams: tuple[int, int], how: str, sliced: bool) -> None:
    address = driver.allocate(0, SIZE)
    source, after = pending(address, how, streams[0])
    view = ls.MemoryView(source, after=after)
    part = view.byte_slice(slice(8, None)) if sliced else view
    assert part.order == view.order is not None
    capsule = part.__dlpack__(stream=streams[1], max_version=(1, 3))
    assert read_on(address, streams[1]) == SEVENS
    del capsule


# covers: memory_view T3, T4
def test_trap_4_the_default_stream_of_a_consumer(streams: tuple[int, int]) -> None:
    address = driver.allocate(0, SIZE)
    for stream in (None, 1, 2):
        view = ls.MemoryView(pending(address, "stream", streams[0])[0])
        view.__dlpack__(stream=stream, max_version=(1, 3))
        assert read_on(address, stream or 1) == SEVENS
    before = waits()
    view.__dlpack__(stream=-1, max_version=(1, 3))
    assert waits() == before
    for stream in (0, -2):
        with pytest.raises(ValueError, match=f"stream {stream}"):
            view.__dlpack__(stream=stream, max_version=(1, 3))


# covers: memory_view T4
@pytest.mark.parametrize(("stream", "passed"), [(None, 1), (1, 1), (2, 2), (-1, -1), (77, 77)])
def test_trap_4_an_import_always_passes_a_stream(stream: int | None, passed: int) -> None:
    source = Tensor(driver.allocate(0, SIZE))
    view = ls.MemoryView(source, stream=stream)
    assert source.stream == passed
    assert view.order == (None if passed == -1 else ("stream", passed))


# covers: memory_view T4
@pytest.mark.parametrize("stream", [0, -2])
def test_trap_4_values_are_checked_before_they_are_passed(stream: int) -> None:
    source = Tensor(driver.allocate(0, SIZE))
    with pytest.raises(ValueError, match=f"stream {stream}"):
        ls.MemoryView(source, stream=stream)
    assert not hasattr(source, "stream")


# covers: memory_view T2
@pytest.mark.parametrize("fields", [{}, {"stream": None}, {"version": 2}, {"version": 0}])
def test_trap_2_no_stream_no_driver_call(fields: dict[str, Any], streams: tuple[int, int]) -> None:
    address = driver.allocate(0, SIZE)
    before = waits()
    view = ls.MemoryView(Interface(address, **fields), stream=streams[0])
    assert view.order is None and "stream" not in view.cai
    view.byte_slice(slice(4)).__dlpack__(stream=streams[1], max_version=(1, 3))
    assert waits() == before


# covers: memory_view T3
def test_trap_3_stream_2_is_that_of_one_thread() -> None:
    view = ls.MemoryView(Interface(driver.allocate(0, SIZE), stream=2))
    assert view.cai["stream"] == 2
    raised: list[BaseException] = []

    def elsewhere() -> None:
        for export in (lambda: view.cai, lambda: view.__dlpack__(stream=1), lambda: view.__dlpack__(stream=2)):
            try:
                export()
            except BufferError as error:
                raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(raised) == 3 and all("thread" in str(error) for error in raised)


# covers: memory_view B7
def test_an_interface_names_a_stream_or_is_ready(streams: tuple[int, int]) -> None:
    address = driver.allocate(0, SIZE)
    assert ls.MemoryView(pending(address, "stream", streams[0])[0]).cai["stream"] == streams[0]
    source, after = pending(address, "event", streams[0])
    assert "stream" not in ls.MemoryView(source, after=after).cai
    assert ctypes.string_at(address, SIZE) == SEVENS  # the stand-in's device memory is memory of the host


# covers: memory_view B6, T7
@LATE
def test_trap_7_the_host_reads_when_the_bytes_are_there(streams: tuple[int, int], how: str) -> None:
    pointer = ctypes.c_void_p()
    driver.call("cuMemHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(SIZE), 0)
    assert pointer.value is not None
    device = driver.allocate(0, SIZE)
    for read in (memoryview, np.asarray, np.from_dlpack, lambda v: np.from_dlpack(v, copy=True)):
        ctypes.memset(pointer, 0, SIZE)
        write_late(device, streams[0])
        driver.call("cuMemcpyDtoHAsync", pointer, ctypes.c_uint64(device), ctypes.c_size_t(SIZE),
                    ctypes.c_void_p(streams[0]))  # fmt: skip
        event = driver.out(ctypes.c_void_p, "cuEventCreate", 2)
        driver.call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(streams[0]))
        stream = {"stream": streams[0]} if how == "stream" else {}
        after = {"stream": None, "after": streams[0], "event": ("event", event)}[how]
        view = ls.MemoryView(Interface(pointer.value, **stream), after=after)
        assert view.device[0] == PINNED
        assert bytes(read(view)) == SEVENS
    driver.call("cuMemFreeHost", pointer)


# covers: memory_view T8
@pytest.mark.parametrize("error", [None, RuntimeError, BufferError])
def test_trap_8_the_producers_device_is_current(error: type[Exception] | None) -> None:
    source = Tensor(driver.allocate(1, SIZE), ordinal=1, error=error)
    if error is None:
        ls.MemoryView(source)
    else:
        with pytest.raises(error):
            ls.MemoryView(source)
    assert source.current == 1
    assert driver.out(ctypes.c_int, "cuCtxGetDevice") == 0


# covers: memory_view T9
@pytest.mark.parametrize("stream", [-1, 77])
def test_trap_9_with_a_stream_given_nothing_else_is_touched(stream: int) -> None:
    source = Tensor(driver.allocate(0, SIZE))
    before = waits()
    view = ls.MemoryView(source, stream=stream)
    capsule = view.__dlpack__(stream=stream, max_version=(1, 3))
    del view, capsule
    assert waits() == before and source.deleted == 1


# covers: memory_view T11
def test_trap_11_the_owner_of_a_stream_lives_with_the_view(streams: tuple[int, int]) -> None:
    class Owner(Interface):
        gone = False

        def __del__(self) -> None:
            Owner.gone = True

    part = ls.MemoryView(Owner(driver.allocate(0, SIZE), stream=streams[0])).byte_slice(slice(4))
    capsule = part.__dlpack__(stream=streams[1], max_version=(1, 3))
    del part
    assert not Owner.gone
    del capsule
    assert Owner.gone


# covers: memory_view B4, T20, T19
def test_trap_20_a_copy_for_the_host(streams: tuple[int, int]) -> None:
    address = driver.allocate(0, SIZE)
    view = ls.MemoryView(pending(address, "stream", streams[0])[0])
    with pytest.raises(ls.CopyRequiredError, match="cuda:0"):
        view.__dlpack__(dl_device=(1, 0), copy=False)
    assert issubclass(ls.CopyRequiredError, BufferError) and issubclass(ls.CopyRequiredError, ValueError)
    for copy in (None, True):
        capsule, tensor = exported(view, dl_device=(1, 0), copy=copy)
        assert tensor.flags == 2 and (tensor.tensor.kind, tensor.tensor.id) == (1, 0)
        assert tensor.tensor.data != address and ctypes.string_at(tensor.tensor.data, SIZE) == SEVENS
        del capsule
    with pytest.raises(ValueError, match="stream"):
        view.__dlpack__(stream=1, dl_device=(1, 0))
    with pytest.raises(BufferError, match="cannot be exported"):
        view.__dlpack__(dl_device=(CUDA, 1))
    strided = ls.MemoryView(Interface(address, shape=(4, 2), strides=(16, 3)))
    capsule, tensor = exported(strided, dl_device=(1, 0))
    assert np.array_equal(np.from_dlpack(Given(capsule)), np.full((4, 2), 7))
    with pytest.raises(BufferError):
        view.__dlpack__(copy=True)


class Given:
    """Hands a capsule on."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)
