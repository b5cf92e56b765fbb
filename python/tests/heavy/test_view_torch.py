"""MemoryView and PyTorch on the CPU: both ways at one address; tensors whose bytes are not their values are refused."""

import gc
import weakref

import loadstone as ls
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.heavy

TYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
]


# covers: memory_view 3.3, B2, B3
@pytest.mark.parametrize("name", TYPES)
def test_both_ways(name: str) -> None:
    tensor = torch.arange(6).to(getattr(torch, name)).reshape(2, 3)
    view = ls.MemoryView(tensor)
    back = torch.from_dlpack(view)
    assert view.ptr == tensor.data_ptr() == back.data_ptr() and str(view.dtype) == name
    assert back.dtype == tensor.dtype and back.shape == tensor.shape and not view.readonly


# covers: memory_view B8
def test_strides_survive() -> None:
    tensor = torch.arange(24.0).reshape(4, 6).T[1:, ::2]
    back = torch.from_dlpack(ls.MemoryView(tensor))
    assert back.stride() == tensor.stride() and back.data_ptr() == tensor.data_ptr() and torch.equal(back, tensor)


# covers: memory_view 1.1
@pytest.mark.parametrize(
    ("make", "cure"),
    [
        (lambda: torch.tensor([1 + 2j]).conj(), "resolve_conj"),
        (lambda: torch.tensor([1 + 2j]).conj().imag, "resolve_neg"),
        (lambda: torch.ones(2, requires_grad=True), "detach"),
    ],
)
def test_bits_that_change_values_are_refused(make, cure: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BufferError, match=cure):
        ls.MemoryView(make())


# covers: memory_view 1.5
def test_the_tensor_dies_with_its_last_view() -> None:
    gc.disable()
    try:
        tensor = torch.arange(8)
        source = weakref.ref(tensor)
        part = ls.MemoryView(tensor).byte_slice(slice(0, 16))
        del tensor
        assert source() is not None and bytes(part)[8] == 1
        del part
        assert source() is None
    finally:
        gc.enable()
