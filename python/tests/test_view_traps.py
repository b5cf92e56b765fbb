"""The traps of memory views that need no driver, each by its number. The DLPack tensors here are made by hand."""

import ctypes
import gc
import pathlib
import subprocess
import sys
import threading
import weakref
from typing import Any

import loadstone as ls
import numpy as np
import pytest

P, I32, I64, U8, U16, U64 = (
    *(ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64),
    *(ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint64),
)
DELETER = ctypes.CFUNCTYPE(None, P)
api = ctypes.pythonapi
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, (P, ctypes.c_char_p, P)
api.PyCapsule_IsValid.argtypes = api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = P, (ctypes.py_object, ctypes.c_char_p)


class Tensor(ctypes.Structure):
    _fields_ = [
        *(("data", P), ("kind", I32), ("id", I32), ("ndim", I32), ("code", U8), ("bits", U8), ("lanes", U16)),
        *(("shape", P), ("strides", P), ("offset", U64)),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", P), ("deleter", P)]


class Versioned(ctypes.Structure):
    _fields_ = [*(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", P), ("deleter", P)),
                *(("flags", U64), ("tensor", Tensor))]  # fmt: skip


class Producer:
    """Hands out one capsule over `array`; what differs from a good tensor is named."""

    def __init__(self, array: np.ndarray, *, legacy: bool = False, major: int = 1, flags: int = 0,
                 deleter: bool = True, null_strides: bool = False, **tensor: Any) -> None:  # fmt: skip
        self.array, self.deleted, self.legacy = array, 0, legacy
        self.name = b"dltensor" if legacy else b"dltensor_versioned"
        shape = tensor.pop("shape", array.shape)
        self.shape = (I64 * max(len(shape), 1))(*shape)
        self.strides = (I64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))
        fields = {
            "data": array.ctypes.data, "kind": 1, "id": 0, "ndim": len(shape), "code": 2, "bits": array.itemsize * 8,
            "lanes": 1, "shape": ctypes.addressof(self.shape), "offset": 0,
            "strides": None if null_strides else ctypes.addressof(self.strides),
        }  # fmt: skip
        described = Tensor(**(fields | tensor))
        self.callback = DELETER(self.count)
        pointer = ctypes.cast(self.callback, P).value if deleter else None
        self.managed = (
            Legacy(described, None, pointer) if legacy else Versioned(major, 0, None, pointer, flags, described)
        )
        self.capsule = api.PyCapsule_New(ctypes.addressof(self.managed), self.name, None)

    def count(self, _: int) -> None:
        self.deleted += 1

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def floats() -> np.ndarray:
    return np.arange(12, dtype="f4").reshape(3, 4)


# covers: memory_view T1
@pytest.mark.parametrize("stream", [0, -1])
def test_trap_1_no_stream_0(stream: int) -> None:
    class Source:
        __cuda_array_interface__ = {
            "data": (0x1000, False), "shape": (4,), "typestr": "|u1", "version": 3, "stream": stream,
        }  # fmt: skip

    with pytest.raises(ValueError, match=f"stream {stream}"):
        ls.MemoryView(Source())
    if stream == 0:
        assert ls.MemoryView(Source(), after=7).order == ("stream", 7)


# covers: memory_view T6
@pytest.mark.parametrize("stream", [-2, -1, 0, 1, 2, 5])
def test_trap_6_host_exports_take_no_stream(stream: int) -> None:
    view = ls.MemoryView(floats())
    view.__dlpack__(stream=None, max_version=(1, 3))
    with pytest.raises(ValueError, match="stream"):
        view.__dlpack__(stream=stream, max_version=(1, 3))


# covers: memory_view T15
@pytest.mark.parametrize("legacy", [False, True])
def test_trap_15_a_null_deleter(legacy: bool) -> None:
    source = Producer(floats(), legacy=legacy, deleter=False)
    view = ls.MemoryView(source)
    assert view.ptr == source.array.ctypes.data
    del view
    assert source.deleted == 0


# covers: memory_view T16
@pytest.mark.parametrize("legacy", [False, True])
def test_trap_16_a_capsule_is_consumed_once(legacy: bool) -> None:
    source = Producer(floats(), legacy=legacy)
    view = ls.MemoryView(source)
    assert api.PyCapsule_IsValid(source.capsule, b"used_" + source.name) == 1
    with pytest.raises(BufferError):
        ls.MemoryView(source)
    assert source.deleted == 0
    del view
    gc.collect()
    assert source.deleted == 1


# covers: memory_view T17
def test_trap_17_a_later_major_version_is_given_back_unread() -> None:
    source = Producer(floats(), major=2, ndim=-7, bits=99, shape=(3, 4))
    with pytest.raises(BufferError, match="2"):
        ls.MemoryView(source)
    assert source.deleted == 1 and api.PyCapsule_IsValid(source.capsule, b"used_dltensor_versioned") == 1


# covers: memory_view T22
def test_trap_22_legacy_is_read_only_unless_asked() -> None:
    assert ls.MemoryView(Producer(floats(), legacy=True)).readonly
    assert not ls.MemoryView(Producer(floats(), legacy=True), writable=True).readonly
    assert not ls.MemoryView(Producer(floats())).readonly
    with pytest.raises(BufferError):
        ls.MemoryView(Producer(floats(), flags=1), writable=True)


# covers: memory_view T25, T34
@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        ({"data": None}, ValueError),
        ({"shape": (2**40, 2**40), "null_strides": True}, OverflowError),
        ({"shape": (3, -4), "null_strides": True}, ValueError),
        ({"shape": (1,) * 65, "null_strides": True}, ValueError),
    ],
)
def test_traps_25_34_pointers_and_shapes(tensor: dict[str, Any], error: type[Exception]) -> None:
    source = Producer(floats(), **tensor)
    with pytest.raises(error):
        ls.MemoryView(source)
    assert source.deleted == 1


# covers: memory_view T26, T27
def test_traps_26_27_scalars_and_null_strides() -> None:
    scalar = ls.MemoryView(Producer(np.array(2.5, "f4"), strides=None, shape=()))
    assert scalar.shape == () and scalar.nbytes == 4 and np.asarray(scalar) == 2.5
    view = ls.MemoryView(Producer(floats(), null_strides=True))
    assert view.contiguous and np.array_equal(np.asarray(view), floats())


# covers: memory_view T29
def test_trap_29_any_stride_of_a_dim_of_one() -> None:
    class Source:
        __cuda_array_interface__ = {
            "data": (0x1000, False), "shape": (3, 1, 4), "strides": (16, 7, 4), "typestr": "<f4", "version": 3,
        }  # fmt: skip

    view = ls.MemoryView(Source())
    assert view.contiguous and view.cai["strides"] is None


# covers: memory_view T32
def test_trap_32_an_offset_is_added_to_the_pointer() -> None:
    source = Producer(np.arange(64, dtype="f4"), offset=64, shape=(4,))
    view = ls.MemoryView(source)
    assert view.ptr == source.array.ctypes.data + 64 and np.asarray(view).tolist() == [16, 17, 18, 19]


# covers: memory_view T33
def test_trap_33_odd_addresses_are_fine() -> None:
    data = np.arange(16, dtype="u1")[3:]
    assert ls.MemoryView(Producer(data, code=1)).ptr == data.ctypes.data == ls.MemoryView(data).ptr


# covers: memory_view T38
@pytest.mark.parametrize(
    "tensor", [{"code": 3}, {"code": 18}, {"code": 2, "bits": 33}, {"code": 2, "lanes": 2}, {"code": 6, "bits": 1}]
)
def test_trap_38_no_guess_at_types(tensor: dict[str, int]) -> None:
    source = Producer(floats(), **tensor)
    with pytest.raises(BufferError):
        ls.MemoryView(source)
    assert source.deleted == 1


# covers: memory_view T38
def test_trap_38_times_never_leave_by_dlpack() -> None:
    with pytest.raises(BufferError):
        ls.MemoryView(np.arange(3).astype("M8[ns]")).__dlpack__(max_version=(1, 3))


def exported(view: ls.MemoryView, **keywords: Any) -> tuple[Any, Versioned]:
    """A versioned capsule and the struct in it."""
    capsule = view.__dlpack__(max_version=(1, 3), **keywords)
    return capsule, Versioned.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))


# covers: memory_view T5
def test_trap_5_streams_of_rocm() -> None:
    class Rocm(Producer):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (10, 0)

        def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
            self.stream = stream
            return self.capsule

    for stream, passed in ((None, 0), (0, 0), (-1, -1), (77, 77)):
        source = Rocm(floats(), kind=10)
        assert ls.MemoryView(source, stream=stream).device == (10, 0) and source.stream == passed
    for stream in (1, 2, -2):
        with pytest.raises(ValueError, match=f"stream {stream}"):
            ls.MemoryView(Rocm(floats(), kind=10), stream=stream)
    view = ls.MemoryView(Rocm(floats(), kind=10), stream=-1)
    for stream in (None, 0, -1, 77):
        view.__dlpack__(stream=stream, max_version=(1, 3))
    for stream in (1, 2, -2):
        with pytest.raises(ValueError, match=f"stream {stream}"):
            view.__dlpack__(stream=stream, max_version=(1, 3))


# covers: memory_view T14
def test_trap_14_a_deleter_on_a_foreign_thread() -> None:
    array = floats()
    gone = weakref.ref(array)
    capsule, tensor = exported(ls.MemoryView(array))
    api.PyCapsule_SetName(capsule, b"used_dltensor_versioned")
    del array, capsule
    assert gone() is not None
    # ctypes lets the GIL go for the call.
    thread = threading.Thread(target=DELETER(tensor.deleter), args=(ctypes.addressof(tensor),))
    thread.start()
    thread.join()
    gc.collect()
    assert gone() is None


# covers: memory_view T14
def test_trap_14_a_deleter_after_the_interpreter_has_ended() -> None:
    code = """
import ctypes, sys
import loadstone as ls, numpy as np
from test_view_traps import api, exported
capsule, tensor = exported(ls.MemoryView(np.zeros(9)))
api.PyCapsule_SetName(capsule, b"used_dltensor_versioned")
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.c_void_p(tensor.deleter), ctypes.c_void_p(ctypes.addressof(tensor)), None)
print("left", flush=True)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "left\n", "")


# covers: memory_view T18
def test_trap_18_what_comes_back_is_looked_at() -> None:
    calls = []

    class Old(Producer):
        def __dlpack__(self, **keywords: Any) -> Any:
            calls.append(sorted(keywords))
            if "max_version" in keywords:
                raise TypeError("unexpected keyword")
            return self.capsule

    class Refuses(Producer):
        def __dlpack__(self, **keywords: Any) -> Any:
            calls.append(sorted(keywords))
            raise BufferError("mine")

    assert ls.MemoryView(Old(floats(), legacy=True)).readonly
    assert calls == [["max_version", "stream"], ["stream"]]
    calls.clear()
    with pytest.raises(BufferError, match="mine"):
        ls.MemoryView(Refuses(floats()))
    assert calls == [["max_version", "stream"]]
    assert ls.MemoryView(Producer(floats(), legacy=True)).readonly  # legacy, although 1.3 was asked for


# covers: memory_view T19
def test_trap_19_copied_says_so() -> None:
    view = ls.MemoryView(floats())
    for copy, flags in ((None, 0), (False, 0), (True, 2)):
        capsule, tensor = exported(view, copy=copy)
        assert tensor.flags == flags and (tensor.tensor.data == view.ptr) == (flags == 0)
        del capsule


# covers: memory_view T21
def test_trap_21_read_only_never_leaves_unversioned() -> None:
    array = floats()
    array.flags.writeable = False
    view = ls.MemoryView(array)
    for version in (None, (0, 8)):
        with pytest.raises(BufferError, match="read-only"):
            view.__dlpack__(max_version=version)
    capsule, tensor = exported(view)
    assert tensor.flags == 1
    del capsule


# covers: memory_view T31, B5
def test_trap_31_a_broadcast_is_read_only() -> None:
    class Source:
        array = floats()
        __cuda_array_interface__ = {
            "data": (array.ctypes.data, False), "shape": (5, 4), "strides": (0, 4), "typestr": "<f4", "version": 3,
        }  # fmt: skip

    assert ls.MemoryView(Source()).readonly and not ls.MemoryView(Source()).contiguous
    view = ls.MemoryView(Producer(np.broadcast_to(np.array([1, 2], "f4"), (3, 2))))
    assert view.readonly and np.asarray(view).tolist() == [[1, 2]] * 3
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(view)[0, 0] = 3


# covers: memory_view T36
@pytest.mark.parametrize("typestr", [">i4", ">f8", ">M8[ns]"])
def test_trap_36_nothing_foreign_comes_in(typestr: str) -> None:
    class Source:
        __cuda_array_interface__ = {"data": (0x1000, False), "shape": (4,), "typestr": typestr, "version": 3}

    with pytest.raises(ValueError, match="^Big-endian data is not supported$"):
        ls.MemoryView(Source())


# covers: memory_view T37
def test_trap_37_bool_and_bfloat16() -> None:
    capsule, tensor = exported(ls.MemoryView(np.array([True, False])))
    assert (tensor.tensor.code, tensor.tensor.bits, tensor.tensor.lanes) == (6, 8, 1)
    del capsule

    class Source:
        def __init__(self, typestr: str) -> None:
            self.__cuda_array_interface__ = {"data": (0x1000, False), "shape": (4,), "typestr": typestr, "version": 3}

    assert ls.MemoryView(Source("<V2"), dtype="bfloat16").cai["typestr"] == "<V2"
    assert ls.MemoryView(Source("<f2")).dtype == np.float16
    with pytest.raises(ValueError, match="Unsupported dtype: V2"):
        ls.MemoryView(Source("<V2"))


# covers: memory_view T40
def test_trap_40_a_source_that_moved() -> None:
    class Source:
        def __init__(self) -> None:
            self.move(0x1000, 4)

        def move(self, address: int, size: int) -> None:
            self.__cuda_array_interface__ = {
                "data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3,
            }  # fmt: skip

    for address, size in ((0x2000, 4), (0x1000, 8)):
        source = Source()
        part = ls.MemoryView(source).byte_slice(slice(1, 3))
        assert part.cai["data"][0] == 0x1001
        source.move(address, size)
        with pytest.raises(BufferError, match="moved"):
            _ = part.cai


# covers: memory_view T28
def test_trap_28_strides_count_elements_here_and_bytes_there() -> None:
    class Source:
        def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
            self.__cuda_array_interface__ = {
                "data": (0x1000, False), "shape": shape, "strides": strides, "typestr": "<f4", "version": 3,
            }  # fmt: skip

    array = np.zeros((4, 6), "f4")[::2, ::3]
    view = ls.MemoryView(array)
    capsule, tensor = exported(view)
    assert (I64 * 2).from_address(tensor.tensor.strides)[:] == [12, 3] and view.strides == (48, 12)
    assert view.__array_interface__["strides"] == (48, 12) == ls.MemoryView(Source((2, 2), (48, 12))).cai["strides"]
    del capsule
    with pytest.raises(BufferError, match="item size 4"):
        ls.MemoryView(Source((2, 3), (24, 6)))
    assert ls.MemoryView(Source((1, 3), (7, 4))).contiguous
    record = np.zeros(3, np.dtype([("a", "u1"), ("b", "<f4")]))["b"]
    with pytest.raises(BufferError):
        ls.MemoryView(record)


# covers: memory_view T35
def test_trap_35_packed_elements() -> None:
    packed = np.array([0x21, 0x03], "u1")

    def nibbles(**fields: Any) -> Producer:
        return Producer(packed, **({"code": 1, "bits": 4, "shape": (3,), "null_strides": True} | fields))

    view = ls.MemoryView(nibbles())
    assert view.nbytes == 2 and view.bytes().shape == (2,) and bytes(view.bytes()) == packed.tobytes()
    capsule, tensor = exported(view)
    assert (tensor.tensor.code, tensor.tensor.bits) == (1, 4) and tensor.flags == 0
    del capsule
    for fields in ({"flags": 4}, {"code": 15, "bits": 8}, {"code": 17, "bits": 8}):
        source = nibbles(**fields)
        with pytest.raises(BufferError):
            ls.MemoryView(source)
        assert source.deleted == 1
