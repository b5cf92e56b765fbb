"""Where memory lies, by the driver's word: MemoryView.verify(), verify= and what an import takes from the driver."""

import ctypes
from typing import Any

import fake_driver
import loadstone as ls
import numpy as np
import pytest
from test_view_traps import Producer

driver = fake_driver.Driver()
HOST, CUDA, PINNED = 1, 2, 3


class Interface:
    """The CUDA array interface over `size` bytes."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}


class Tensor(Producer):
    """A DLPack tensor of bytes that says to be on (kind, ordinal)."""

    def __init__(self, address: int, size: int, kind: int, ordinal: int, declared: int | None = None) -> None:
        super().__init__(np.zeros(size, "u1"), data=address, kind=kind, id=ordinal, code=1)
        self.device = (kind if declared is None else declared, ordinal)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.fixture
def pinned() -> Any:
    """Page-locked memory of 100 bytes."""
    driver.current(1)
    address = ctypes.c_void_p()
    driver.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(100), 0)
    yield address.value
    driver.call("cuMemFreeHost", address)
    driver.leave()


# covers: memory_view B13, T39
def test_the_device_of_an_interface_is_asked_of_the_pointer() -> None:
    address = driver.allocate(1, 100)
    driver.current(0)
    view = ls.MemoryView(Interface(address, 100))
    driver.leave()
    assert view.device == (CUDA, 1) == view.__dlpack_device__() and view.verified
    report = view.verify()
    assert (report.verdict, report.reason) == ("ok", "")
    assert report.claim == report.found == (CUDA, 1)
    assert report.range == report.extent == (address, 100)
    part = view.byte_slice(slice(10, 20))
    assert part.verified and part.device == (CUDA, 1) and part.verify().extent == (address + 10, 10)
    assert ls.MemoryView(view).verified and not view.byte_slice(slice(0)).verified
    assert "ok" in repr(report)


# covers: memory_view B13, 1.1, 1.6
def test_a_wrong_claim_is_refused_with_both_values() -> None:
    address = driver.allocate(1, 100)
    assert ls.MemoryView(Tensor(address, 100, CUDA, 1)).verified
    source = Tensor(address, 100, CUDA, 0)
    with pytest.raises(BufferError, match="cuda:0.*cuda:1") as caught:
        ls.MemoryView(source)
    assert source.deleted == 1
    assert type(caught.value) is ls.PlaceMismatchError
    report = caught.value.report
    assert (report.verdict, report.claim, report.found) == ("mismatch", (CUDA, 0), (CUDA, 1))
    unverified = ls.MemoryView(Tensor(address, 100, CUDA, 0), verify=False)
    assert not unverified.verified and unverified.device == (CUDA, 0)
    assert unverified.verify().verdict == "mismatch"


# covers: memory_view B13
@pytest.mark.parametrize("source", [Interface, lambda address, size: Tensor(address, size, CUDA, 0)])
def test_bytes_beyond_the_allocation_are_refused(source: Any) -> None:
    address = driver.allocate(0, 100)
    assert ls.MemoryView(source(address + 50, 50)).verified
    with pytest.raises(ls.PlaceMismatchError, match=f"100 bytes at address {address}"):
        ls.MemoryView(source(address + 50, 51))


# covers: memory_view B13
def test_freed_memory() -> None:
    address = driver.allocate(0, 100)
    driver.current(0)
    driver.call("cuMemFree", ctypes.c_uint64(address))
    driver.leave()
    with pytest.raises(ls.PlaceMismatchError, match="freed"):
        ls.MemoryView(Tensor(address, 100, CUDA, 0))
    # An interface names no device that could be wrong; its view is of no known one.
    view = ls.MemoryView(Interface(address, 100))
    assert not view.verified and view.device == (CUDA, -1) and view.verify().verdict == "unchecked"
    with pytest.raises(BufferError, match="device"):
        view.__dlpack__(stream=1, max_version=(1, 3))


# covers: memory_view B13, T39
def test_pinned_memory_is_told_from_host_memory(pinned: int) -> None:
    assert ls.MemoryView(Tensor(pinned, 100, PINNED, 0)).verified
    # PyTorch declares (3, 0) and exports a tensor of kind 1.
    torch_like = ls.MemoryView(Tensor(pinned, 100, HOST, 0, declared=PINNED))
    assert torch_like.device[0] == PINNED and torch_like.verified
    array = np.zeros(100, "u1")
    plain = ls.MemoryView(Tensor(array.ctypes.data, 100, HOST, 0, declared=PINNED))
    assert plain.device == (HOST, 0) and not plain.verified
    with pytest.raises(ls.PlaceMismatchError):
        ls.MemoryView(Tensor(array.ctypes.data, 100, PINNED, 0))
    assert ls.MemoryView(Interface(pinned, 100)).device[0] == PINNED


# covers: memory_view B12, T24
def test_empty_views_are_not_asked_about() -> None:
    driver.current(1)
    view = ls.MemoryView(Interface(0, 0))
    driver.leave()
    assert view.device == (CUDA, 1) and not view.verified and view.verify().reason == "the view is empty"
    assert ls.MemoryView(Tensor(0, 0, CUDA, 0)).device == (CUDA, 0)


# covers: memory_view B13
def test_host_arrays_are_asked_about_by_verify_only() -> None:
    view = ls.MemoryView(np.zeros(10, "u1"))
    assert not view.verified and view.verify().verdict == "unchecked" and view.verify().found == (HOST, 0)
