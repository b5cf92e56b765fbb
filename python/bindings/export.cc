#include <nanobind/stl/string.h>

#include <cstring>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/cuda_driver.h"
#include "loadstone/base/error.h"
#include "loadstone/handover/cuda_array_interface.h"
#include "memory_view.h"

namespace loadstone::python {

namespace {

/// struct-module format of a type NumPy knows, or "" (bfloat16, float8, packed types).
const char* buffer_format(DType dtype) {
  struct Entry {
    DType dtype;
    const char* format;
  };
  static constexpr Entry kEntries[] = {
      {dtypes::kBool, "?"},       {dtypes::kInt8, "b"},        {dtypes::kUInt8, "B"},   {dtypes::kInt16, "h"},
      {dtypes::kUInt16, "H"},     {dtypes::kInt32, "i"},       {dtypes::kUInt32, "I"},  {dtypes::kInt64, "l"},
      {dtypes::kUInt64, "L"},     {dtypes::kFloat16, "e"},     {dtypes::kFloat32, "f"}, {dtypes::kFloat64, "d"},
      {dtypes::kComplex64, "Zf"}, {dtypes::kComplex128, "Zd"},
  };
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype) return entry.format;
  }
  return "";
}

// --- the buffer protocol

struct BufferDims {
  View view;  // the bytes stay when the MemoryView is released
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
};

bool f_contiguous(const View& view) {
  return Layout(view.shape(), f_strides(view.shape())).num_elems() == 0 ||
         view.layout().strides() == f_strides(view.shape()) ||
         (view.layout().contiguous() && view.layout().ndim() <= 1);
}

/// Why the view cannot be exported under `flags`, or nullptr.
const char* refusal(const View& view, int flags) {
  if (!view.place().host_accessible()) return "memory of a device has no host buffer";
  if (*buffer_format(view.dtype()) == '\0') {
    return "the buffer protocol has no format for this dtype: use numpy.asarray(view), or view.bytes()";
  }
  if ((flags & PyBUF_WRITABLE) != 0 && view.readonly()) return "the view is read-only";
  const bool c_order = view.layout().contiguous();
  const bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
  if (wants_c && !c_order) return "the view is not C-contiguous";
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !f_contiguous(view)) return "the view is not F-contiguous";
  if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !c_order && !f_contiguous(view)) {
    return "the view is not contiguous";
  }
  return nullptr;
}

// --- DLPack

/// Frees a tensor that nobody consumed (a consumer renames the capsule).
template <typename Managed>
void free_unconsumed(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}

template <typename Managed>
nb::object capsule_of(Managed* managed, const char* name, PyCapsule_Destructor destructor) {
  PyObject* capsule = PyCapsule_New(managed, name, destructor);
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

View copy_of(const View& view) {
  View out = View::allocate(view.shape(), view.dtype(), view.place());
  if (!view.dtype().whole_bytes()) {
    std::memcpy(out.data(), view.data(), static_cast<std::size_t>(view.nbytes()));
  } else if (view.layout().num_elems() > 0) {
    strided_copy({out.data(), byte_strides(out)}, {view.data(), byte_strides(view)}, view.shape(),
                 view.dtype().itemsize());
  }
  return out;
}

/// The bytes that a view of a GPU reaches, in host memory, in the same layout.
View host_copy_of(const View& view) {
  const bool whole = view.dtype().whole_bytes();
  const std::int64_t itemsize = whole ? view.dtype().itemsize() : 1;
  const std::int64_t low = whole ? view.layout().min_offset() * itemsize : 0;
  const std::int64_t bytes =
      whole && view.data() != nullptr ? (view.layout().max_offset() + 1) * itemsize - low : view.nbytes();
  const nb::gil_scoped_release released;
  auto memory = Memory::allocate_host(bytes);
  if (bytes > 0) cuda::copy_to_host(memory->base(), view.data() + low, bytes, view.place().ordinal);
  return View(std::move(memory), -low, view.layout(), view.dtype());
}

/// The producer may have moved its memory since (resize, spill): then no address of it is handed on.
void check_not_moved(const MemoryView& start) {
  const MemoryView* root = &start;
  while (root->obj.is_valid() && nb::isinstance<MemoryView>(root->obj)) root = &memory_view_of(root->obj);
  if (!root->interface || root->released) return;
  const nb::object now = root->obj.attr("__cuda_array_interface__");
  const nb::object data = now["data"];
  const auto address = nb::cast<std::uintptr_t>(nb::object(data[0]));
  const nb::object shape_now = now["shape"];
  const Dims shape = dims_from(shape_now, "shape");
  const bool empty = root->view.data() == nullptr;
  if ((!empty && address != reinterpret_cast<std::uintptr_t>(root->view.data())) || shape != root->view.shape()) {
    raise(PyExc_BufferError,
          cat("the source has moved since the import: it was ", to_string(root->view.shape()), " at ",
              reinterpret_cast<std::uintptr_t>(root->view.data()), ", it is ", to_string(shape), " at ", address));
  }
}

/// The stream of a consumer on a device, checked by the rules of its kind.
std::int64_t consumer_stream(PlaceKind kind, nb::handle stream) {
  const bool rocm = kind == PlaceKind::rocm;
  const std::int64_t value = stream.is_none() ? (rocm ? 0 : 1) : stream_value(stream);
  if (value < -1 || (rocm ? value == 1 || value == 2 : value == 0)) {
    throw usage_error(cat("stream ", value, " is not allowed for DLPack on ", rocm ? "ROCm" : "CUDA"));
  }
  return value;
}

/// The stream of a consumer of memory on `place`; absent where the host is to read it.
std::optional<std::int64_t> consumer_of(Place place, nb::handle stream) {
  if (place.kind == PlaceKind::cuda || place.kind == PlaceKind::rocm || place.kind == PlaceKind::managed) {
    return consumer_stream(place.kind, stream);
  }
  if (stream.is_none()) return std::nullopt;
  throw usage_error(cat("__dlpack__ of host memory takes stream=None, found ", nb::repr(stream).c_str()));
}

/// The device to say, when the consumer asks for one.
Place asked_place(const View& view, nb::handle dl_device, nb::handle copy) {
  const Place own = dlpack::export_place(view.place());
  if (dl_device.is_none()) return own;
  const nb::tuple asked(nb::borrow(dl_device));
  if (nb::len(asked) != 2) throw usage_error("dl_device is a pair (device type, ordinal)");
  const Place wanted{static_cast<PlaceKind>(nb::cast<std::int32_t>(nb::int_(asked[0]))),
                     nb::cast<std::int32_t>(nb::int_(asked[1]))};
  if (wanted == own || (wanted == Place{} && view.place().host_accessible())) return wanted;
  if (wanted == Place{} && view.place().kind == PlaceKind::cuda) {
    if (!copy.is_none() && !nb::cast<bool>(copy)) {
      const std::string text = cat("memory on ", to_string(own), " cannot be given to the host without a copy");
      const nb::object error = helper("_errors", "CopyRequiredError")(nb::str(text.c_str()));
      PyErr_SetObject(error.type().ptr(), error.ptr());
      throw nb::python_error();
    }
    if (cuda::driver() != nullptr) return wanted;
  }
  raise(PyExc_BufferError,
        cat("memory on ", to_string(own), " cannot be exported to DLPack device ", nb::repr(dl_device).c_str()));
}

nb::object to_dlpack(nb::handle_t<MemoryView> handle, nb::object stream, nb::object max_version, nb::object dl_device,
                     nb::object copy) {
  const MemoryView& self = memory_view_of(handle);
  const View source = self.live();  // a wait lets other threads run, which may release it
  const Place place = asked_place(source, dl_device, copy);
  const std::optional<std::int64_t> consumer = consumer_of(place, stream);
  if (source.place().kind == PlaceKind::cuda && source.place().ordinal < 0) {
    raise(PyExc_BufferError, "the device of this memory is not known without a CUDA driver");
  }
  check_not_moved(self);
  if (const std::string why = dlpack::unsupported(source.dtype()); !why.empty()) raise(PyExc_BufferError, why);
  const bool to_host = place == Place{} && source.place().kind == PlaceKind::cuda;
  const bool copied = to_host || (!copy.is_none() && nb::cast<bool>(copy));
  if (copied && !to_host && !source.place().host_accessible()) {
    raise(PyExc_BufferError, cat("memory on ", to_string(place), " is not copied on its device"));
  }
  for (const std::int64_t stride : source.layout().strides()) {
    if (stride < 0 && !copied) raise(PyExc_BufferError, "a view with negative strides is not exported to DLPack");
  }
  if (copied || !consumer) {
    wait_for_bytes(self);
  } else {
    let_stream_wait(self, *consumer);
  }
  const View view = to_host ? host_copy_of(source) : copied ? copy_of(source) : shared_view(self);
  std::int64_t major = 0;
  std::int64_t minor = 0;
  if (!max_version.is_none()) {
    const nb::tuple newest(max_version);
    major = nb::cast<std::int64_t>(newest[0]);
    minor = nb::cast<std::uint32_t>(newest[1]);
  }
  if (major >= 1) {
    auto* tensor = dlpack::to_versioned(view, major > 1 ? 3 : static_cast<std::uint32_t>(minor), copied);
    tensor->tensor.device = place;
    return capsule_of(tensor, kVersionedName, [](PyObject* capsule) {
      free_unconsumed<dlpack::ManagedTensorVersioned>(capsule, kVersionedName);
    });
  }
  if (view.readonly()) {
    raise(PyExc_BufferError, "a read-only view needs a consumer that speaks DLPack 1.0 or newer (max_version)");
  }
  auto* tensor = dlpack::to_legacy(view);
  tensor->tensor.device = place;
  return capsule_of(tensor, kLegacyName,
                    [](PyObject* capsule) { free_unconsumed<dlpack::ManagedTensor>(capsule, kLegacyName); });
}

// --- the array interfaces

nb::dict interface_dict(const cai::Interface& interface) {
  nb::dict out;
  out["shape"] = tuple_from(interface.shape);
  out["typestr"] = nb::str(interface.typestr.c_str());
  out["data"] = nb::make_tuple(interface.address, interface.readonly);
  out["strides"] = interface.strides ? nb::object(tuple_from(*interface.strides)) : nb::none();
  out["version"] = nb::int_(3);
  if (interface.stream) out["stream"] = nb::int_(*interface.stream);
  return out;
}

nb::dict cuda_array_interface(const MemoryView& self) {
  // A copy: another thread may release the view while this one waits.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const View view = self.live();
  if (view.place().kind == PlaceKind::host) throw nb::attribute_error("__cuda_array_interface__: this is host memory");
  check_not_moved(self);
  check_order_thread(self);
  // An interface can name a stream, not an event.
  const bool by_event = view.order().kind == Order::Kind::event;
  if (by_event) wait_for_bytes(self);
  try {
    return interface_dict(cai::export_view(by_event ? with_order(view, Order{}) : view));
  } catch (const Error& error) {
    throw nb::attribute_error(error.what());
  }
}

nb::dict array_interface(const MemoryView& self) {
  // A copy: another thread may release the view while this one waits.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const View view = self.live();
  if (!view.place().host_accessible()) throw nb::attribute_error("__array_interface__: this is memory of a device");
  if (view.dtype() == dtypes::kBFloat16) {
    throw nb::attribute_error("__array_interface__: there is none for this view, see __array__");
  }
  cai::Interface interface;
  interface.typestr = cai::typestr(view.dtype());
  if (interface.typestr.empty()) throw nb::attribute_error("__array_interface__: there is none for this dtype");
  if (view.order().kind != Order::Kind::ready && cuda::driver() == nullptr) {
    throw nb::attribute_error("__array_interface__: the bytes are pending, and nothing can wait without a CUDA driver");
  }
  wait_for_bytes(self);
  interface.address = reinterpret_cast<std::uintptr_t>(view.data());
  interface.readonly = view.readonly();
  interface.shape = view.shape();
  if (!view.layout().contiguous()) interface.strides = byte_strides(view);
  return interface_dict(interface);
}

}  // namespace

int get_buffer(PyObject* self, Py_buffer* out, int flags) {
  out->obj = nullptr;
  if (!nb::inst_ready(self) || nb::inst_ptr<MemoryView>(self)->released) {
    PyErr_SetString(PyExc_ValueError, "operation forbidden on a released or unconstructed MemoryView");
    return -1;
  }
  const View& view = nb::inst_ptr<MemoryView>(self)->view;
  if (const char* reason = refusal(view, flags)) {
    PyErr_SetString(PyExc_BufferError, reason);
    return -1;
  }
  try {
    wait_for_bytes(*nb::inst_ptr<MemoryView>(self));
  } catch (nb::python_error& error) {
    error.restore();
    return -1;
  } catch (const Error& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
  if (nb::inst_ptr<MemoryView>(self)->released) {
    PyErr_SetString(PyExc_ValueError, "the MemoryView was released while its bytes were waited for");
    return -1;
  }
  static std::byte nothing{};  // consumers take a null address for "no buffer"
  auto* dims =
      new BufferDims{shared_view(*nb::inst_ptr<MemoryView>(self)), {view.shape().begin(), view.shape().end()}, {}};
  const Dims strides = byte_strides(view);
  dims->strides.assign(strides.begin(), strides.end());
  out->buf = view.data() != nullptr ? view.data() : &nothing;
  out->len = static_cast<Py_ssize_t>(view.nbytes());
  out->itemsize = static_cast<Py_ssize_t>(view.dtype().itemsize());
  out->readonly = view.readonly() ? 1 : 0;
  out->ndim = view.layout().ndim();
  out->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(buffer_format(view.dtype())) : nullptr;
  out->shape = (flags & PyBUF_ND) != 0 ? dims->shape.data() : nullptr;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims->strides.data() : nullptr;
  out->suboffsets = nullptr;
  out->internal = dims;
  out->obj = Py_NewRef(self);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* buffer) {
  delete static_cast<BufferDims*>(buffer->internal);
}

void bind_memory_view_exports(nb::class_<MemoryView>& cls) {
  cls.def_prop_ro("cai", &cuda_array_interface, nb::sig("def cai(self) -> dict[str, typing.Any]"),
                  "The CUDA array interface, version 3: a fresh dict each time. AttributeError for host memory.")
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"), "See `cai`.")
      .def_prop_ro("__array_interface__", &array_interface,
                   nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"),
                   "NumPy's array interface. AttributeError where NumPy has no name for the type.")
      .def("__dlpack__", &to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"),
           "A DLPack capsule: versioned when the consumer asks for 1.0 or newer, else unversioned (BufferError for a "
           "read-only view).")
      .def(
          "__dlpack_device__",
          [](const MemoryView& v) {
            const Place place = dlpack::export_place(v.live().place());
            return nb::make_tuple(static_cast<std::int64_t>(place.kind), place.ordinal);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"), "(1, 0) for host memory.");
}

}  // namespace loadstone::python
