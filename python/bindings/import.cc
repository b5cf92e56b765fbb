#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/handover/cuda_array_interface.h"
#include "memory_view.h"

namespace loadstone::python {

namespace {

/// The first BufferError and the last AttributeError of the protocols that were tried.
struct Declined {
  nb::object buffer_error;
  nb::object attribute_error;

  /// Takes a Python exception that means "not by this protocol"; anything else passes through.
  void take(nb::python_error& error, PyObject* also = nullptr) {
    if (error.matches(PyExc_BufferError)) {
      if (!buffer_error.is_valid()) buffer_error = nb::borrow(error.value());
    } else if (error.matches(PyExc_AttributeError)) {
      attribute_error = nb::borrow(error.value());
    } else if (also == nullptr || !error.matches(also)) {
      throw error;  // NOLINT(cert-err60-cpp): a reference-counted handle
    }
  }
};

/// getattr that takes an AttributeError for "not offered".
nb::object offered(nb::handle obj, const char* name, Declined& declined, PyObject* also = nullptr) {
  PyObject* value = PyObject_GetAttrString(obj.ptr(), name);
  if (value != nullptr) return nb::steal(value);
  nb::python_error error;
  declined.take(error, also);
  return {};
}

bool truthy(nb::handle value) {
  const int answer = PyObject_IsTrue(value.ptr());
  if (answer < 0) throw nb::python_error();
  return answer != 0;
}

std::string type_module(nb::handle obj) {
  const nb::object module = nb::getattr(obj.type(), "__module__", nb::str(""));
  return nb::isinstance<nb::str>(module) ? nb::cast<std::string>(module) : std::string();
}

/// Numbers that PyTorch keeps lazily conjugated or negated come out wrong by every protocol but __dlpack__.
void refuse_lazy_tensor(nb::handle tensor) {
  if (!nb::hasattr(tensor, "requires_grad") || !nb::hasattr(tensor, "is_conj")) return;
  if (truthy(tensor.attr("is_conj")())) {
    raise(PyExc_BufferError, "the tensor's conj bit is set: its bytes are not its values; use resolve_conj()");
  }
  if (truthy(tensor.attr("is_neg")())) {
    raise(PyExc_BufferError, "the tensor's neg bit is set: its bytes are not its values; use resolve_neg()");
  }
  if (truthy(tensor.attr("requires_grad"))) {
    raise(PyExc_BufferError, "the tensor has requires_grad set: use detach()");
  }
}

/// The value of a stream for DLPack on CUDA, as requirements of the standard have it.
std::int64_t cuda_stream(nb::handle stream) {
  const std::int64_t value = stream_value(stream);
  if (value == 0 || value < -1) {
    throw usage_error(cat("stream ", value,
                          " is not allowed: 1 is the legacy default stream, 2 the per-thread one, -1 "
                          "means that nothing need wait"));
  }
  return value;
}

Order order_of_stream(std::int64_t stream) {
  return stream == -1 ? Order{} : Order{Order::Kind::stream, static_cast<std::uintptr_t>(stream)};
}

/// after=: a stream, or ("event", handle).
std::optional<Order> order_after(nb::handle after) {
  if (after.is_none()) return std::nullopt;
  if (nb::isinstance<nb::tuple>(after)) {
    const nb::tuple pair = nb::borrow<nb::tuple>(after);
    if (nb::len(pair) != 2 || !is_string(pair[0]) || nb::cast<std::string>(pair[0]) != "event") {
      throw usage_error("after= takes a stream or ('event', handle)");
    }
    return Order{Order::Kind::event, nb::cast<std::uintptr_t>(pair[1])};
  }
  return order_of_stream(cuda_stream(after));
}

/// stream=: the caller's stream runs after the source, and with it whatever waits for that stream.
void wait_for_source(MemoryView& imported, const ImportOptions& options) {
  if (options.stream.is_none() || imported.view.order().kind == Order::Kind::ready) return;
  if (imported.view.place().kind == PlaceKind::rocm) return;  // the producer was given the stream
  const std::int64_t wanted = cuda_stream(options.stream);
  if (wanted == -1) return;
  let_stream_wait(imported, wanted);
  imported.view = with_order(imported.view, order_of_stream(wanted));
}

/// A producer's GPU is current while it exports: PyTorch refuses otherwise.
void make_current(std::optional<cuda::Scope>& scope, Place place) {
  if (place.kind != PlaceKind::cuda && place.kind != PlaceKind::managed) return;
  if (cuda::driver() == nullptr || place.ordinal < 0 || place.ordinal >= cuda::device_count()) return;
  scope.emplace(place.ordinal);
}

// --- DLPack

View take_capsule(nb::handle capsule, Order order, const ImportOptions& options) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedName) != 0) {
    auto* tensor = static_cast<dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName));
    // Renamed before anything can call the deleter, which then runs once whatever happens.
    if (PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned") != 0) throw nb::python_error();
    const std::string why = dlpack::unsupported(tensor->version);
    std::string type = why.empty() ? dlpack::unsupported(tensor->tensor.dtype) : why;
    if (type.empty() && (tensor->flags & dlpack::kPadded) != 0 && !tensor->tensor.dtype.whole_bytes()) {
      type = cat("elements of ", to_string(tensor->tensor.dtype), " that are padded to bytes cannot be used in place");
    }
    if (!type.empty()) {
      if (tensor->deleter != nullptr) tensor->deleter(tensor);
      raise(PyExc_BufferError, type);
    }
    const bool readonly = (tensor->flags & dlpack::kReadOnly) != 0;
    View view = checked_import([&] { return dlpack::from_versioned(tensor, order); });
    if (options.writable && readonly) raise(PyExc_BufferError, "writable=True, but the source is read-only");
    return view;
  }
  if (PyCapsule_IsValid(capsule.ptr(), kLegacyName) != 0) {
    auto* tensor = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kLegacyName));
    if (PyCapsule_SetName(capsule.ptr(), "used_dltensor") != 0) throw nb::python_error();
    if (const std::string type = dlpack::unsupported(tensor->tensor.dtype); !type.empty()) {
      if (tensor->deleter != nullptr) tensor->deleter(tensor);
      raise(PyExc_BufferError, type);
    }
    return checked_import([&] { return dlpack::from_legacy(tensor, options.writable, order); });
  }
  raise(PyExc_BufferError, cat("__dlpack__ returned ", nb::repr(capsule).c_str(), ", not an unused DLPack capsule"));
}

/// The stream to pass to __dlpack__, and what the bytes then wait for.
std::pair<nb::object, Order> dlpack_stream(PlaceKind kind, const ImportOptions& options) {
  switch (kind) {
    case PlaceKind::cuda:
    case PlaceKind::managed: {
      const std::int64_t stream = options.stream.is_none() ? 1 : cuda_stream(options.stream);
      return {nb::int_(stream), order_of_stream(stream)};
    }
    case PlaceKind::rocm: {
      const std::int64_t stream = options.stream.is_none() ? 0 : stream_value(options.stream);
      if (stream < -1 || stream == 1 || stream == 2)
        throw usage_error(cat("stream ", stream, " is not allowed on ROCm"));
      return {nb::int_(stream), order_of_stream(stream)};
    }
    default: return {nb::none(), order_after(options.after).value_or(Order{})};
  }
}

/// The claims may differ between host and pinned memory only.
void check_claims(Place declared, Place tensor) {
  const auto host = [](PlaceKind kind) { return kind == PlaceKind::host || kind == PlaceKind::pinned; };
  const bool same = declared.kind == tensor.kind && (host(tensor.kind) || declared.ordinal == tensor.ordinal);
  if (same || (host(declared.kind) && host(tensor.kind))) return;
  raise(PyExc_BufferError,
        cat("__dlpack_device__ says ", to_string(declared), ", the tensor says ", to_string(tensor)));
}

std::optional<MemoryView> from_dlpack(nb::handle obj, const ImportOptions& options, Declined& declined) {
  const nb::object device_of = offered(obj, "__dlpack_device__", declined);
  const nb::object export_of = device_of.is_valid() ? offered(obj, "__dlpack__", declined) : nb::object();
  if (!export_of.is_valid()) return std::nullopt;
  nb::object capsule;
  Place declared;
  Order order;
  try {
    const nb::object device = device_of();
    declared = {static_cast<PlaceKind>(nb::cast<std::int32_t>(nb::int_(device[0]))),
                nb::cast<std::int32_t>(nb::int_(device[1]))};
    auto [stream, pending] = dlpack_stream(declared.kind, options);
    order = pending;
    std::optional<cuda::Scope> current;
    make_current(current, declared);
    try {
      capsule = export_of(nb::arg("stream") = stream, nb::arg("max_version") = nb::make_tuple(1, 3));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      capsule = export_of(nb::arg("stream") = stream);
    }
  } catch (nb::python_error& error) {
    if (type_module(obj).starts_with("torch") && error.matches(PyExc_BufferError)) throw;
    declined.take(error);
    return std::nullopt;
  }
  MemoryView out{take_capsule(capsule, order, options)};
  const Place tensor = out.view.place();
  check_claims(declared, tensor);
  // Two that say host say nothing of a device. Where one says pinned (PyTorch), the driver decides.
  if (options.verify && declared.kind != tensor.kind) {
    settle_place(out, Place{}, true);
  } else if (options.verify && tensor.kind != PlaceKind::host) {
    settle_place(out, tensor);
  }
  wait_for_source(out, options);
  return out;
}

// --- array interfaces

Dims dims_of(nb::handle sequence) {
  Dims out;
  for (const nb::handle item : nb::iter(sequence)) {
    const nb::object index = nb::steal(PyNumber_Index(item.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    const std::int64_t value = PyLong_AsLongLong(index.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    out.push_back(value);
  }
  return out;
}

nb::object get_or(nb::handle mapping, const char* key) {
  try {
    return mapping[key];
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_KeyError)) throw;
    return nb::none();
  }
}

cai::Interface parse_interface(nb::handle mapping) {
  cai::Interface out;
  if (!get_or(mapping, "mask").is_none()) {
    raise(PyExc_NotImplementedError, "Masked array-interface inputs are not supported");
  }
  const nb::object version = get_or(mapping, "version");
  if (!version.is_none()) out.version = stream_value(version);
  const nb::object data = mapping["data"];
  const nb::object address = data[0];
  const nb::object index = nb::steal(PyNumber_Index(address.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  out.address = PyLong_AsSize_t(index.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  out.readonly = truthy(data[1]);
  out.shape = dims_of(mapping["shape"]);
  const nb::object strides = get_or(mapping, "strides");
  if (!strides.is_none()) out.strides = dims_of(strides);
  out.typestr = nb::cast<std::string>(nb::str(mapping["typestr"]));
  const nb::object stream = get_or(mapping, "stream");
  if (!stream.is_none()) out.stream = stream_value(stream);
  return out;
}

/// Strides count elements from here on, so that a step inside an element cannot be said.
void refuse_cut_elements(const cai::Interface& interface, std::optional<DType> stated) {
  if (!interface.strides || interface.strides->size() != interface.shape.size()) return;
  const std::int64_t itemsize = cai::element_type(interface.typestr, stated).itemsize();
  for (int d = 0; d < interface.shape.size(); ++d) {
    if (interface.shape[d] > 1 && (*interface.strides)[d] % itemsize != 0) {
      raise(PyExc_BufferError, cat("strides ", to_string(*interface.strides), " are no multiples of the item size ",
                                   itemsize, ": the elements cannot be used in place"));
    }
  }
}

View from_interface(nb::handle mapping, Place place, const ImportOptions& options) {
  const cai::Interface interface = parse_interface(mapping);
  if (options.writable && interface.readonly) raise(PyExc_BufferError, "writable=True, but the source is read-only");
  refuse_cut_elements(interface, options.dtype);
  const std::optional<Order> after = order_after(options.after);
  return checked_import([&] { return cai::import_view(interface, place, options.dtype, after); });
}

// --- the buffer protocol

/// The type string of a struct-module format; "" when it is no single number.
std::string typestr_of_format(std::string_view format, std::int64_t itemsize) {
  char order = '<';
  if (!format.empty() && std::string_view("@=<>!").find(format.front()) != std::string_view::npos) {
    if (format.front() == '>' || format.front() == '!') order = '>';
    format.remove_prefix(1);
  }
  if (format == "Zf" || format == "Zd") return cat(std::string(1, order), "c", itemsize);
  if (format.size() != 1) return {};
  constexpr std::string_view kSigned = "bhilqn";
  constexpr std::string_view kUnsigned = "BHILQNc";
  const char code = format.front();
  const char kind = code == '?'                                      ? 'b'
                    : kSigned.find(code) != std::string_view::npos   ? 'i'
                    : kUnsigned.find(code) != std::string_view::npos ? 'u'
                    : code == 'e' || code == 'f' || code == 'd'      ? 'f'
                                                                     : '\0';
  if (kind == '\0') return {};
  return cat(std::string(1, itemsize == 1 ? '|' : order), std::string(1, kind), itemsize);
}

std::optional<MemoryView> from_buffer(nb::handle obj, const ImportOptions& options, Declined& declined) {
  if (PyObject_CheckBuffer(obj.ptr()) == 0) return std::nullopt;
  const nb::object pinned = nb::steal(PyMemoryView_FromObject(obj.ptr()));
  Py_buffer buffer;
  if (!pinned.is_valid() || PyObject_GetBuffer(pinned.ptr(), &buffer, PyBUF_FULL_RO) != 0) {
    nb::python_error error;
    declined.take(error, PyExc_ValueError);
    return std::nullopt;
  }
  // The memoryview goes on holding the exporter's buffer; this second look is only for the fields.
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> look(&buffer, &PyBuffer_Release);
  cai::Interface interface;
  interface.version = 3;
  interface.typestr =
      typestr_of_format(buffer.format != nullptr ? buffer.format : "B", static_cast<std::int64_t>(buffer.itemsize));
  if (interface.typestr.empty()) return std::nullopt;
  interface.readonly = buffer.readonly != 0;
  if (options.writable && interface.readonly) raise(PyExc_BufferError, "writable=True, but the source is read-only");
  if (buffer.suboffsets != nullptr) raise(PyExc_BufferError, "a buffer with suboffsets is not one piece of memory");
  const auto ndim = static_cast<std::size_t>(buffer.ndim);
  if (ndim > 0) interface.shape = Dims(std::span<const std::int64_t>(buffer.shape, ndim));
  if (ndim > 0 && buffer.strides != nullptr)
    interface.strides = Dims(std::span<const std::int64_t>(buffer.strides, ndim));
  interface.address = reinterpret_cast<std::uintptr_t>(buffer.buf);
  refuse_cut_elements(interface, options.dtype);
  MemoryView out{checked_import([&] { return cai::import_view(interface, Place{}, options.dtype); })};
  out.keep = pinned;
  return out;
}

/// pylibcudf is told by this text; the protocols that it does not know follow.
[[noreturn]] void refuse(nb::handle obj, const Declined& declined) {
  if (declined.buffer_error.is_valid()) {
    PyErr_SetObject(declined.buffer_error.type().ptr(), declined.buffer_error.ptr());
    throw nb::python_error();
  }
  const std::string text =
      cat("MemoryView must be constructed from an object supporting the CUDA array interface, DLPack, the buffer "
          "protocol or __array_interface__, found ",
          nb::cast<std::string>(nb::str(obj.type().attr("__name__"))));
  const nb::object error = nb::steal(PyObject_CallFunction(PyExc_ValueError, "s", text.c_str()));
  if (!error.is_valid()) throw nb::python_error();
  if (declined.attribute_error.is_valid()) {
    PyException_SetCause(error.ptr(), nb::object(declined.attribute_error).release().ptr());
  }
  PyErr_SetObject(PyExc_ValueError, error.ptr());
  throw nb::python_error();
}

bool strided_cupy(nb::handle obj) {
  if (!type_module(obj).starts_with("cupy")) return false;
  const nb::object flags = nb::getattr(obj, "flags", nb::none());
  return !flags.is_none() && !truthy(nb::getattr(flags, "c_contiguous", nb::bool_(true)));
}

MemoryView import_by_protocol(nb::handle obj, const ImportOptions& options) {
  if (type_module(obj).starts_with("torch")) refuse_lazy_tensor(obj);
  Declined declined;
  // CuPy's DLPack strides can be wrong in ways that no extent shows.
  if (!strided_cupy(obj)) {
    if (auto view = from_dlpack(obj, options, declined)) return std::move(*view);
  }
  if (const nb::object mapping = offered(obj, "__cuda_array_interface__", declined, PyExc_KeyError);
      mapping.is_valid()) {
    MemoryView out{from_interface(mapping, kUnclaimedCuda, options)};
    if (options.verify) settle_place(out, kUnclaimedCuda);
    wait_for_source(out, options);
    out.keep = nb::borrow(obj);
    out.interface = true;
    return out;
  }
  if (auto view = from_buffer(obj, options, declined)) return std::move(*view);
  if (const nb::object mapping = offered(obj, "__array_interface__", declined); mapping.is_valid()) {
    ImportOptions host = options;
    host.after = nb::none();
    MemoryView out{from_interface(mapping, Place{}, host)};
    out.keep = nb::borrow(obj);
    return out;
  }
  refuse(obj, declined);
}

}  // namespace

std::int64_t stream_value(nb::handle stream) {
  nb::object value = nb::borrow(stream);
  if (nb::hasattr(stream, "__cuda_stream__")) {
    const nb::object pair = stream.attr("__cuda_stream__")();
    value = pair[1];
    if (nb::cast<std::int64_t>(nb::object(pair[0])) != 0) throw usage_error("__cuda_stream__: only version 0 is known");
  }
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const std::int64_t out = PyLong_AsLongLong(index.ptr());
  if (out == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return out;
}

MemoryView import_object(nb::handle obj, const ImportOptions& options) {
  MemoryView out;
  if (nb::isinstance<MemoryView>(obj)) {
    const MemoryView& own = memory_view_of(obj);
    if (options.writable && own.live().readonly()) {
      raise(PyExc_BufferError, "writable=True, but the source is read-only");
    }
    out.view = own.live();
    out.keep = own.keep;
    out.verified = own.verified;
    out.thread = own.thread;
    wait_for_source(out, options);
  } else {
    out = import_by_protocol(obj, options);
  }
  out.obj = nb::borrow(obj);
  return out;
}

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
  const auto keep = std::make_shared<Keepalive>(array);
  return {cai::foreign_view(nb::cast<std::uintptr_t>(data[0]), shape, strides, type.dtype, Place{},
                            nb::cast<bool>(data[1]), Order{}, [keep](std::byte*, std::int64_t) {})};
}

}  // namespace loadstone::python
