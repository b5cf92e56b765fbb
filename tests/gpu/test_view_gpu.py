"""MemoryView and the libraries that fill GPUs: both ways, the same address, in order. Skipped where there is no GPU."""

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import loadstone as ls


def gpu_problem() -> str:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no NVIDIA driver: {error}"
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver finds no GPU"
    return ""


pytestmark = pytest.mark.skipif(gpu_problem() != "", reason=gpu_problem())

DTYPES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
TORCH = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
         "complex128", "float8_e4m3fn", "float8_e5m2"]  # fmt: skip
JAX = ["uint8", "int16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]


# covers: memory_view 3.3, B2, B3, B13
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(64,), (4, 6), ()])
def test_cupy_both_ways(dtype: str, shape: tuple[int, ...]) -> None:
    cupy = pytest.importorskip("cupy")
    host = np.arange(int(np.prod(shape, dtype=int))).astype(dtype).reshape(shape)
    array = cupy.asarray(host)
    view = ls.MemoryView(array)
    assert view.ptr == array.data.ptr and view.device == (2, array.device.id) and view.verified
    for back in (cupy.from_dlpack(view), cupy.asarray(view)):
        assert back.data.ptr == array.data.ptr and back.dtype == array.dtype and back.shape == shape
        assert cupy.asnumpy(back).tobytes() == host.tobytes()


# covers: memory_view B1, B8
def test_cupy_strided_and_fortran_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    array = cupy.arange(24, dtype="f4").reshape(4, 6)
    for part in (array[:, ::2], array.T, cupy.asfortranarray(array), array[1:3, 2:]):
        view = ls.MemoryView(part)
        assert view.ptr == part.data.ptr and view.strides == part.strides and view.verified
        assert np.array_equal(cupy.asnumpy(cupy.asarray(view)), cupy.asnumpy(part))
    assert ls.MemoryView(array[::-1]).strides == (-24, 4)


# covers: memory_view 3.3, B11
@pytest.mark.parametrize("name", TORCH)
def test_torch_both_ways(name: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(4, 6, device="cuda", dtype=getattr(torch, name))
    tensor[1] = 1
    view = ls.MemoryView(tensor)
    assert view.ptr == tensor.data_ptr() and view.shape == (4, 6) and view.device == (2, 0) and view.verified
    back = torch.from_dlpack(view)
    assert back.data_ptr() == tensor.data_ptr() and back.dtype == tensor.dtype
    assert torch.equal(back.view(torch.uint8), tensor.view(torch.uint8))


# covers: memory_view 1.1
def test_torch_bits_that_change_values_are_refused() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.ones(2, device="cuda", dtype=torch.complex64)
    for wrong in (tensor.conj(), tensor.conj().imag, tensor.real.clone().requires_grad_()):
        with pytest.raises(BufferError):
            ls.MemoryView(wrong)


# covers: memory_view 3.3, T21
@pytest.mark.parametrize("name", JAX)
def test_jax_both_ways(name: str) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU backend")
    array = jax.device_put(jax.numpy.arange(64).astype(name).reshape(8, 8))
    view = ls.MemoryView(array, writable=True)
    assert view.ptr == array.unsafe_buffer_pointer() and view.shape == (8, 8) and view.device == (2, 0) and view.verified
    again = jax.dlpack.from_dlpack(view)
    assert again.unsafe_buffer_pointer() == view.ptr and again.dtype == array.dtype
    assert np.asarray(again).tobytes() == np.asarray(array).tobytes()


# covers: memory_view 3.3
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
def test_numba_both_ways(dtype: str) -> None:
    cuda = pytest.importorskip("numba.cuda")
    host = np.arange(24).astype(dtype).reshape(4, 6)
    array = cuda.to_device(host)
    view = ls.MemoryView(array)
    assert view.ptr == array.__cuda_array_interface__["data"][0] and view.device == (2, 0) and view.verified
    assert np.array_equal(cuda.as_cuda_array(view).copy_to_host(), host)


# covers: memory_view 1.5
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_the_memory_lives_with_its_last_user(library: str) -> None:
    module: Any = pytest.importorskip(library)
    array = module.ones(1000, device="cuda") if library == "torch" else module.ones(1000, "f4")
    source = weakref.ref(array)
    part = ls.MemoryView(array).byte_slice(slice(400, 800))
    export = module.from_dlpack(part)
    pointer = part.ptr
    del array, part
    gc.collect()
    assert (export.data_ptr() if library == "torch" else export.data.ptr) == pointer
    del export
    gc.collect()
    assert source() is None


# covers: memory_view B13
def test_probe_the_driver_tells_kinds_and_ranges() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.using_allocator(None):
        array = cupy.zeros(1000, "u1")
    report = ls.MemoryView(array).verify()
    assert report.verdict == "ok" and report.found == (2, 0) and report.range == (array.data.ptr, 1000)
    managed = cupy.ndarray((1000,), "u1", cupy.cuda.malloc_managed(1000))
    view = ls.MemoryView(managed)
    assert view.device[0] == 13 and view.verify().verdict == "ok"
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(1000), "u1")
    assert ls.MemoryView(pinned).verify().found[0] == 3
    plain = ls.MemoryView(np.zeros(1000, "u1")).verify()
    assert plain.verdict == "ok" and plain.found == (1, 0) and plain.range is None


# covers: memory_view B13, T39
def test_probe_wrong_claims_are_refused() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.using_allocator(None):
        array = cupy.zeros(1000, "u1")

    class Claim:
        def __init__(self, pointer: int, size: int) -> None:
            self.__cuda_array_interface__ = {"data": (pointer, False), "shape": (size,), "typestr": "|u1", "version": 2}

    assert ls.MemoryView(Claim(array.data.ptr, 1000)).device == (2, 0)
    for pointer, size in ((array.data.ptr, 1001), (np.zeros(10, "u1").ctypes.data, 10)):
        with pytest.raises(ls.PlaceMismatchError) as caught:
            ls.MemoryView(Claim(pointer, size))
        assert caught.value.report.verdict == "mismatch"
        assert not ls.MemoryView(Claim(pointer, size), verify=False).verified


# covers: memory_view T24
def test_probe_empty_views() -> None:
    cupy = pytest.importorskip("cupy")
    array = cupy.zeros((0, 3), "f4")
    view = ls.MemoryView(array)
    assert view.ptr == 0 and not view.verified and cupy.from_dlpack(view).shape == (0, 3)
    part = ls.MemoryView(cupy.zeros(8, "u1")).byte_slice(slice(5, 5))
    assert part.ptr == 0 and part.cai["data"][0] == 0


def test_trap_8_the_current_device_comes_back() -> None:
    cupy = pytest.importorskip("cupy")
    before = cupy.cuda.runtime.getDevice()
    array = cupy.zeros(8, "u1")
    ls.MemoryView(array)

    class Failing:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **_: Any) -> Any:
            assert cupy.cuda.runtime.getDevice() == 0
            raise RuntimeError("from the producer")

    with pytest.raises(RuntimeError, match="from the producer"):
        ls.MemoryView(Failing())
    assert cupy.cuda.runtime.getDevice() == before


# covers: memory_view B7
def test_a_finished_load_hands_out_ready_memory(tmp_path: Any) -> None:
    host = np.arange(64, dtype="f4").reshape(8, 8)
    np.save(tmp_path / "a.npy", host)
    placed = ls.load(ls.open(tmp_path / "a.npy"), ls.Sharding(ls.Mesh({"x": 1}, devices=["cuda:0"]), (None, None)))
    view = placed.shards[0].data
    assert view.order is None and "stream" not in view.cai and view.verify().verdict == "ok"
