#pragma once

#include <string>

#include "common.h"
#include "loadstone/array/check_place.h"
#include "loadstone/handover/dlpack.h"

/// What the files behind loadstone.MemoryView share: memory_view.cc (the class), import.cc (its constructor),
/// verify_place.cc (the driver's word), wait_order.cc and export.cc (DLPack, the array interfaces, the buffer
/// protocol).
namespace loadstone::python {

inline constexpr const char* kLegacyName = "dltensor";
inline constexpr const char* kVersionedName = "dltensor_versioned";

/// What the constructor was given beside the object.
struct ImportOptions {
  nb::object stream;
  nb::object after;
  bool writable = false;
  std::optional<DType> dtype;
  bool verify = true;
};

/// The one import. Asks `obj` in the order DLPack, CUDA array interface, buffer protocol, __array_interface__.
MemoryView import_object(nb::handle obj, const ImportOptions& options);
/// A view of a NumPy array's own memory, which it keeps alive.
MemoryView view_array(nb::object array);

/// Compares the place of a fresh import with the driver's: sets `verified`, takes the driver's place where the claim
/// leaves it open (`take_drivers`: always). PlaceMismatchError when they disagree.
void settle_place(MemoryView& imported, Place claim, bool take_drivers = false);
/// Lets a consumer's stream (-1: it vouches) wait for what the view is pending on. BufferError without a driver.
void let_stream_wait(const MemoryView& self, std::int64_t stream);
/// Returns when the bytes are there; lets other threads run meanwhile. BufferError without a driver.
void wait_for_bytes(const MemoryView& self);
/// BufferError when the bytes are pending on stream 2 of another thread.
void check_order_thread(const MemoryView& self);
View with_order(const View& view, Order order);
void bind_place_report(nb::module_& m);
void bind_verify_place(nb::class_<MemoryView>& cls);
void bind_memory_view_exports(nb::class_<MemoryView>& cls);
/// Py_bf_getbuffer and Py_bf_releasebuffer.
int get_buffer(PyObject* self, Py_buffer* out, int flags);
void release_buffer(PyObject*, Py_buffer* buffer);

/// The MemoryView behind a Python object. TypeError when it was never constructed.
MemoryView& memory_view_of(nb::handle self);
/// Strides in bytes, for types of whole bytes.
Dims byte_strides(const View& view);
/// ValueError, BufferError and OverflowError with a text of any length.
[[noreturn]] void raise(PyObject* type, const std::string& text);
/// A stream given as an int or as an object with __cuda_stream__.
std::int64_t stream_value(nb::handle stream);
/// Runs an import of the core: what passes 2^63-1 becomes an OverflowError.
template <typename Work>
View checked_import(Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::data) raise(PyExc_OverflowError, error.message());
    throw;
  }
}

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

}  // namespace loadstone::python
