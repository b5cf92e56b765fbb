#include <nanobind/stl/string.h>

#include <cstring>

#include "common.h"
#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/handover/dlpack.h"

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

Dims byte_strides(const View& view) {
  Dims out = view.layout().strides();
  for (std::int64_t& stride : out) stride = stride * view.dtype().elem_bits() / 8;
  return out;
}

// --- the buffer protocol

struct BufferDims {
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

int get_buffer(PyObject* self, Py_buffer* out, int flags) {
  const View& view = nb::inst_ptr<MemoryView>(self)->view;
  out->obj = nullptr;
  if (const char* reason = refusal(view, flags)) {
    PyErr_SetString(PyExc_BufferError, reason);
    return -1;
  }
  static std::byte nothing{};  // consumers take a null address for "no buffer"
  auto* dims = new BufferDims{{view.shape().begin(), view.shape().end()}, {}};
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

// --- DLPack

constexpr const char* kLegacyName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

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

[[noreturn]] void buffer_error(const std::string& text) {
  throw nb::buffer_error(text.c_str());
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

nb::object to_dlpack(const MemoryView& self, nb::object stream, nb::object max_version, nb::object dl_device,
                     nb::object copy) {
  const Place place = dlpack::export_place(self.view.place());
  if (!stream.is_none()) {
    throw usage_error(cat("__dlpack__ of host memory takes stream=None, found ", nb::repr(stream).c_str()));
  }
  if (!dl_device.is_none()) {
    const nb::tuple asked(dl_device);
    if (nb::len(asked) != 2) throw usage_error("dl_device is a pair (device type, ordinal)");
    if (nb::cast<std::int64_t>(asked[0]) != static_cast<std::int64_t>(place.kind) ||
        nb::cast<std::int64_t>(asked[1]) != place.ordinal) {
      buffer_error(
          cat("memory on ", to_string(place), " cannot be exported to DLPack device ", nb::repr(dl_device).c_str()));
    }
  }
  const bool copied = !copy.is_none() && nb::cast<bool>(copy);
  const View view = copied ? copy_of(self.view) : self.view;
  if (!max_version.is_none()) {
    const nb::tuple newest(max_version);
    const auto major = nb::cast<std::int64_t>(newest[0]);
    const auto minor = nb::cast<std::uint32_t>(newest[1]);
    if (major >= 1) {
      return capsule_of(
          dlpack::to_versioned(view, major > 1 ? 3 : minor, copied), kVersionedName,
          [](PyObject* capsule) { free_unconsumed<dlpack::ManagedTensorVersioned>(capsule, kVersionedName); });
    }
  }
  if (view.readonly()) {
    buffer_error("a read-only view needs a consumer that speaks DLPack 1.0 or newer (max_version)");
  }
  return capsule_of(dlpack::to_legacy(view), kLegacyName,
                    [](PyObject* capsule) { free_unconsumed<dlpack::ManagedTensor>(capsule, kLegacyName); });
}

// --- NumPy arrays as views

/// Keeps a Python object for as long as a Memory lives, which may end on any thread.
class Keepalive {
 public:
  explicit Keepalive(nb::object object) : object_(object.release().ptr()) {}
  Keepalive(const Keepalive&) = delete;
  Keepalive& operator=(const Keepalive&) = delete;
  ~Keepalive() {
    if (const nb::detail::cleanup_guard guard{}) Py_DECREF(object_);
  }

 private:
  PyObject* object_;
};

MemoryView view_array(nb::object array) {
  const nb::object name = helper("_dtypes", "from_numpy")(array.attr("dtype"));
  const DiskType type = parse_dtype(nb::cast<std::string>(name));
  const auto itemsize = nb::cast<std::int64_t>(array.attr("itemsize"));
  if (type.order != ByteOrder::little) throw usage_error("a big-endian array cannot be used in place");
  if (type.dtype.elem_bits() != itemsize * 8) {
    throw usage_error(cat("an array of ", to_string(type.dtype), " holds one element in ", itemsize,
                          " byte: packed elements cannot be used in place"));
  }
  const nb::dict interface(array.attr("__array_interface__"));
  const nb::tuple data(interface["data"]);
  const Dims shape = dims_from(array.attr("shape"), "shape");
  Dims strides;
  for (const nb::handle stride : nb::tuple(array.attr("strides"))) {
    const auto bytes = nb::cast<std::int64_t>(stride);
    if (bytes % itemsize != 0) throw usage_error("an array whose strides cut elements cannot be used in place");
    strides.push_back(bytes / itemsize);
  }
  const Layout layout(shape, strides);
  auto* base = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(data[0]));
  const auto keep = std::make_shared<Keepalive>(array);
  const bool empty = layout.num_elems() == 0;
  const std::int64_t low = empty ? 0 : layout.min_offset() * itemsize;
  const std::int64_t bytes = empty ? 0 : (layout.max_offset() - layout.min_offset() + 1) * itemsize;
  auto memory = std::make_shared<Memory>(base + low, bytes, Place{}, nb::cast<bool>(data[1]),
                                         [keep](std::byte*, std::int64_t) {});
  return {View(std::move(memory), -low, layout, type.dtype)};
}

std::string repr(const MemoryView& self) {
  return cat("MemoryView(shape=", to_string(self.view.shape()), ", dtype=", to_string(self.view.dtype()),
             ", device=", to_string(self.view.place()), ", readonly=", self.view.readonly() ? "True" : "False", ")");
}

/// Same memory under another element type of the same size or as bytes.
View retyped(const View& view, DType dtype, const Layout& layout) {
  if (view.layout().num_elems() == 0)
    return View(std::make_shared<Memory>(nullptr, 0, view.place(), view.readonly(), nullptr), 0, layout, dtype);
  View out(view.memory(), view.data() - view.memory()->base(), layout, dtype, view.order());
  return view.readonly() ? out.as_readonly() : out;
}

}  // namespace

void bind_array(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
                                {0, nullptr}};
  nb::class_<MemoryView>(m, "MemoryView", nb::type_slots(slots), nb::is_weak_referenceable(), nb::is_final(),
                         "Memory that a load has filled: typed, strided, shared without copying.\n\n"
                         "numpy.asarray(view) shares the bytes and is writable unless the view is read-only; bfloat16 "
                         "and float8 arrive\nas ml_dtypes. The memory lives while any view, array or DLPack capsule "
                         "made from it does.")
      .def_prop_ro(
          "ptr", [](const MemoryView& v) { return reinterpret_cast<std::uintptr_t>(v.view.data()); },
          "Address of element 0; 0 if and only if the view is empty.")
      .def_prop_ro(
          "nbytes", [](const MemoryView& v) { return v.view.nbytes(); },
          "Elements times item size, in bytes; packed types round up once.")
      .def_prop_ro(
          "size",
          [](const MemoryView& v) {
            if (!v.view.layout().contiguous()) throw nb::attribute_error("size: the view is not C-contiguous");
            return v.view.nbytes();
          },
          "Bytes, as in `nbytes`. AttributeError when the view is not C-contiguous.")
      .def_prop_ro(
          "shape", [](const MemoryView& v) { return tuple_from(v.view.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Extent of each dimension, in elements.")
      .def_prop_ro(
          "strides", [](const MemoryView& v) { return tuple_from(byte_strides(v.view)); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "Byte stride of each dimension.")
      .def_prop_ro(
          "ndim", [](const MemoryView& v) { return v.view.layout().ndim(); }, "Number of dimensions.")
      .def_prop_ro(
          "dtype", [](const MemoryView& v) { return numpy_dtype(v.view.dtype()); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"), "Type of an element, of NumPy or ml_dtypes.")
      .def_prop_ro(
          "itemsize",
          [](const MemoryView& v) { return static_cast<std::int64_t>((v.view.dtype().elem_bits() + 7) / 8); },
          "Bytes of one element.")
      .def_prop_ro(
          "readonly", [](const MemoryView& v) { return v.view.readonly(); }, "True if writing is refused.")
      .def_prop_ro(
          "contiguous", [](const MemoryView& v) { return v.view.layout().contiguous(); },
          "True if elements lie in C order without gaps.")
      .def_prop_ro(
          "device",
          [](const MemoryView& v) {
            return nb::make_tuple(static_cast<std::int64_t>(v.view.place().kind), v.view.place().ordinal);
          },
          nb::sig("def device(self) -> tuple[int, int]"),
          "(kind, ordinal) of the memory, kinds in DLPack's numbering: 1 host, 2 CUDA, 3 pinned.")
      .def(
          "bytes",
          [](const MemoryView& v) {
            if (!v.view.layout().contiguous()) throw usage_error("bytes() needs a C-contiguous view");
            return MemoryView{retyped(v.view, dtypes::kUInt8, Layout(Shape{v.view.nbytes()}))};
          },
          "The same memory as a 1-D view of uint8. ValueError when the view is not C-contiguous.")
      .def(
          "_unsigned",
          [](const MemoryView& v) {
            const DType dtype{1, static_cast<std::uint8_t>(v.view.dtype().elem_bits()), 1};
            return MemoryView{retyped(v.view, dtype, v.view.layout())};
          },
          "The same memory with elements named as unsigned integers of their size.")
      .def("__len__",
           [](const MemoryView& v) {
             if (v.view.layout().ndim() == 0) throw nb::type_error("len() of unsized object");
             return v.view.shape()[0];
           })
      .def("__repr__", &repr)
      .def(
          "__reduce__",
          [](const MemoryView&) -> nb::object { throw nb::type_error("cannot pickle 'MemoryView' object"); },
          nb::sig("def __reduce__(self) -> typing.NoReturn"))
      .def(
          "__array__",
          [](nb::object self, nb::object dtype, nb::object copy) {
            return helper("_dtypes", "as_array")(self, dtype, copy);
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                  "numpy.typing.NDArray[typing.Any]"),
          "A NumPy array that shares the bytes. copy=True copies; copy=False raises ValueError when `dtype` needs one.")
      .def("__dlpack__", &to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"),
           "A DLPack capsule: versioned when the consumer asks for 1.0 or newer, else unversioned (BufferError for a "
           "read-only view).")
      .def(
          "__dlpack_device__",
          [](const MemoryView& v) {
            const Place place = dlpack::export_place(v.view.place());
            return nb::make_tuple(static_cast<std::int64_t>(place.kind), place.ordinal);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"), "(1, 0) for host memory.");

  m.def("view_array", &view_array, nb::arg("array"),
        nb::sig("def view_array(array: numpy.typing.NDArray[typing.Any]) -> MemoryView"),
        "A view of a NumPy array's own memory, which it keeps alive. ValueError when the elements cannot be used in "
        "place.");
}

}  // namespace loadstone::python
