#include "memory_view.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/handover/cuda_array_interface.h"

namespace loadstone::python {

namespace {

nb::object dtype_object(DType dtype) {
  if (!cai::is_time(dtype)) return numpy_dtype(dtype);
  return nb::module_::import_("numpy").attr("dtype")(cai::typestr(dtype));
}

std::string name_of(DType dtype) {
  return cai::is_time(dtype) ? cai::typestr(dtype).substr(1) : to_string(dtype);
}

std::string repr(const MemoryView& self) {
  if (self.released) return "MemoryView(released)";
  return cat("MemoryView(shape=", to_string(self.view.shape()), ", dtype=", name_of(self.view.dtype()),
             ", device=", to_string(self.view.place()), ", readonly=", self.view.readonly() ? "True" : "False", ")");
}

/// Same memory under another element type of the same size or as bytes.
View retyped(const View& view, DType dtype, const Layout& layout) {
  if (view.layout().num_elems() == 0)
    return View(std::make_shared<Memory>(nullptr, 0, view.place(), view.readonly(), nullptr), 0, layout, dtype);
  View out(view.memory(), view.data() - view.memory()->base(), layout, dtype, view.order());
  return view.readonly() ? out.as_readonly() : out;
}

/// A view of the same memory that keeps its parent.
MemoryView child_of(nb::handle parent, View view) {
  MemoryView out{std::move(view)};
  out.obj = nb::borrow(parent);
  out.keep = memory_view_of(parent).keep;
  out.verified = memory_view_of(parent).verified && out.view.data() != nullptr;
  out.thread = memory_view_of(parent).thread;
  return out;
}

MemoryView byte_slice(nb::handle_t<MemoryView> self, nb::handle slice) {
  const View& view = memory_view_of(self).live();
  if (PySlice_Check(slice.ptr()) == 0) {
    raise(PyExc_TypeError,
          cat("byte_slice requires a slice, not ", nb::cast<std::string>(nb::str(slice.type().attr("__name__")))));
  }
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(slice.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
  if (step != 1) throw usage_error("byte_slice only supports step=1 slices");
  if (!view.layout().contiguous()) throw usage_error("Data must be C-contiguous");
  const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(view.nbytes()), &start, &stop, step);
  const Layout layout(Shape{static_cast<std::int64_t>(count)});
  const std::int64_t offset = view.data() != nullptr ? view.data() - view.memory()->base() + start : 0;
  View part(view.memory(), offset, layout, dtypes::kUInt8, view.order());
  return child_of(self, view.readonly() ? part.as_readonly() : std::move(part));
}

void construct(nb::pointer_and_handle<MemoryView> self, nb::object obj, nb::object stream, nb::object after,
               nb::object writable, nb::object dtype, bool verify) {
  if (nb::inst_ready(self.h)) throw nb::type_error("a MemoryView is constructed once");
  ImportOptions options;
  options.stream = std::move(stream);
  options.after = std::move(after);
  options.writable = !writable.is_none() && nb::cast<bool>(writable);
  if (!dtype.is_none()) {
    const nb::object name = helper("_dtypes", "from_user")(dtype);
    options.dtype = parse_dtype(nb::cast<std::string>(name)).dtype;
  }
  options.verify = verify;
  new (self.p) MemoryView(import_object(obj, options));
}

/// `MemoryView.__new__(MemoryView)` would be a view of nothing.
PyObject* new_view(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) == 0 && (kwargs == nullptr || PyDict_Size(kwargs) == 0)) {
    PyErr_SetString(PyExc_TypeError, "MemoryView needs an object to look at");
    return nullptr;
  }
  return nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(type))).release().ptr();
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* view = nb::inst_ptr<MemoryView>(self);
  Py_VISIT(view->obj.ptr());
  Py_VISIT(view->keep.ptr());
  return 0;
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  auto* view = nb::inst_ptr<MemoryView>(self);
  if (view->keep.is_valid()) {
    view->released = true;
    view->view = View();
  }
  view->obj.reset();
  view->keep.reset();
  return 0;
}

nb::object order_object(Order order) {
  if (order.kind == Order::Kind::ready) return nb::none();
  return nb::make_tuple(order.kind == Order::Kind::stream ? "stream" : "event", order.handle);
}

}  // namespace

const View& MemoryView::live() const {
  if (released) throw usage_error("operation forbidden on released MemoryView");
  return view;
}

View shared_view(const MemoryView& self) {
  const View& view = self.live();
  if (!self.keep.is_valid() || view.data() == nullptr) return view;
  const auto keep = std::make_shared<Keepalive>(self.keep);
  const auto& memory = view.memory();
  auto held = std::make_shared<Memory>(memory->base(), memory->bytes(), memory->place(), view.readonly(),
                                       [keep](std::byte*, std::int64_t) {});
  return View(std::move(held), view.data() - memory->base(), view.layout(), view.dtype(), view.order());
}

MemoryView& memory_view_of(nb::handle self) {
  if (!nb::inst_ready(self)) throw nb::type_error("this MemoryView was never constructed");
  return *nb::inst_ptr<MemoryView>(self);
}

Dims byte_strides(const View& view) {
  Dims out = view.layout().strides();
  for (std::int64_t& stride : out) stride = stride * view.dtype().elem_bits() / 8;
  return out;
}

void raise(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  throw nb::python_error();
}

void bind_array(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
                                {Py_tp_new, reinterpret_cast<void*>(new_view)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {0, nullptr}};
  bind_place_report(m);
  nb::class_<MemoryView> cls(
      m, "MemoryView", nb::type_slots(slots), nb::is_weak_referenceable(),
      "Memory that a load has filled, or of another library: typed, strided, shared without copying.\n\n"
      "MemoryView(obj) takes what offers DLPack, the CUDA array interface (versions 0 to 3), the buffer protocol or\n"
      "__array_interface__. numpy.asarray(view) shares the bytes and is writable unless the view is read-only; "
      "bfloat16 "
      "and\nfloat8 arrive as ml_dtypes. The memory lives while any view, array or DLPack capsule made from it does.");
  cls.def(
         "__init__", &construct, nb::arg("obj"), nb::kw_only(), nb::arg("stream") = nb::none(),
         nb::arg("after") = nb::none(), nb::arg("writable") = nb::none(), nb::arg("dtype") = nb::none(),
         nb::arg("verify") = true,
         nb::sig("def __init__(self, obj: object, *, stream: typing.Any = None, after: typing.Any = None, writable: "
                 "bool | None = None, dtype: typing.Any = None, verify: bool = True) -> None"),
         "`stream`: the caller's CUDA stream, which then runs after the source's work. `after`: a stream or ('event', "
         "handle) that the bytes wait for when the source names none. `writable=True`: take unversioned DLPack tensors "
         "as writable. `dtype`: the type of bytes whose type string cannot say it (V2, V1). `verify`: the CUDA driver "
         "is asked where the bytes lie that a source says are a device's; PlaceMismatchError when it disagrees.")
      .def_prop_ro(
          "obj", [](const MemoryView& v) { return v.live(), v.obj.is_valid() ? v.obj : nb::none(); },
          nb::sig("def obj(self) -> typing.Any"),
          "The object passed in; for a slice its parent; None for memory of a load.")
      .def_prop_ro(
          "order", [](const MemoryView& v) { return order_object(v.live().order()); },
          nb::sig("def order(self) -> tuple[str, int] | None"),
          "None when the bytes are there, else ('stream', handle) or ('event', handle) to wait for.")
      .def_prop_ro(
          "ptr", [](const MemoryView& v) { return reinterpret_cast<std::uintptr_t>(v.live().data()); },
          "Address of element 0; 0 if and only if the view is empty.")
      .def_prop_ro(
          "nbytes", [](const MemoryView& v) { return v.live().nbytes(); },
          "Elements times item size, in bytes; packed types round up once.")
      .def_prop_ro(
          "size",
          [](const MemoryView& v) {
            if (!v.live().layout().contiguous()) throw nb::attribute_error("size: the view is not C-contiguous");
            return v.live().nbytes();
          },
          "Bytes, as in `nbytes`. AttributeError when the view is not C-contiguous.")
      .def_prop_ro(
          "shape", [](const MemoryView& v) { return tuple_from(v.live().shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Extent of each dimension, in elements.")
      .def_prop_ro(
          "strides", [](const MemoryView& v) { return tuple_from(byte_strides(v.live())); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "Byte stride of each dimension.")
      .def_prop_ro(
          "ndim", [](const MemoryView& v) { return v.live().layout().ndim(); }, "Number of dimensions.")
      .def_prop_ro(
          "dtype", [](const MemoryView& v) { return dtype_object(v.live().dtype()); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"), "Type of an element, of NumPy or ml_dtypes.")
      .def_prop_ro(
          "itemsize",
          [](const MemoryView& v) { return static_cast<std::int64_t>((v.live().dtype().elem_bits() + 7) / 8); },
          "Bytes of one element.")
      .def_prop_ro(
          "readonly", [](const MemoryView& v) { return v.live().readonly(); }, "True if writing is refused.")
      .def_prop_ro(
          "contiguous", [](const MemoryView& v) { return v.live().layout().contiguous(); },
          "True if elements lie in C order without gaps.")
      .def_prop_ro(
          "device",
          [](const MemoryView& v) {
            return nb::make_tuple(static_cast<std::int64_t>(v.live().place().kind), v.live().place().ordinal);
          },
          nb::sig("def device(self) -> tuple[int, int]"),
          "(kind, ordinal) of the memory, kinds in DLPack's numbering: 1 host, 2 CUDA, 3 pinned.")
      .def(
          "bytes",
          [](nb::handle_t<MemoryView> self) {
            const View& view = memory_view_of(self).live();
            if (!view.layout().contiguous()) throw usage_error("bytes() needs a C-contiguous view");
            return child_of(self, retyped(view, dtypes::kUInt8, Layout(Shape{view.nbytes()})));
          },
          nb::sig("def bytes(self) -> MemoryView"),
          "The same memory as a 1-D view of uint8. ValueError when the view is not C-contiguous.")
      .def(
          "_unsigned",
          [](nb::handle_t<MemoryView> self) {
            const View& view = memory_view_of(self).live();
            const DType dtype{1, static_cast<std::uint8_t>(view.dtype().elem_bits()), 1};
            return child_of(self, retyped(view, dtype, view.layout()));
          },
          nb::sig("def _unsigned(self) -> MemoryView"),
          "The same memory with elements named as unsigned integers of their size.")
      .def("byte_slice", &byte_slice, nb::arg("s"), nb::sig("def byte_slice(self, s: slice) -> MemoryView"),
           "Bytes of a C-contiguous view as a 1-D view of uint8, cut like bytes[s] with step 1. O(1); keeps this view "
           "as "
           "its `obj`.")
      .def(
          "release",
          [](MemoryView& v) {
            v.released = true;
            v.view = View();
            v.obj.reset();
            v.keep.reset();
          },
          "Drops this view; slices and exports keep the memory. Any later use raises ValueError, a second release does "
          "nothing.")
      .def("__len__",
           [](const MemoryView& v) {
             if (v.live().layout().ndim() == 0) throw nb::type_error("len() of unsized object");
             return v.live().shape()[0];
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
          "A NumPy array that shares the bytes. copy=True copies; copy=False raises ValueError when `dtype` needs "
          "one.");
  bind_verify_place(cls);
  bind_memory_view_exports(cls);

  m.def("view_array", &view_array, nb::arg("array"),
        nb::sig("def view_array(array: numpy.typing.NDArray[typing.Any]) -> MemoryView"),
        "A view of a NumPy array's own memory, which it keeps alive. ValueError when the elements cannot be used in "
        "place.");
}

}  // namespace loadstone::python
