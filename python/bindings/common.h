#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "loadstone/load.h"

namespace loadstone::python {

namespace nb = nanobind;

void bind_errors(nb::module_& m);
void bind_array(nb::module_& m);
void bind_catalog(nb::module_& m);
void bind_write(nb::module_& m);
void bind_mesh(nb::module_& m);
void bind_shard(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_verify(nb::module_& m);
void bind_load(nb::module_& m);

/// What Python sees of a View. The Python references are the view's own, so that the garbage collector can follow them:
/// of borrowed memory `keep` is the only owner, and C++ that outlives the object takes shared_view().
struct MemoryView {
  View view;
  nb::object obj{};   ///< what it was made from; the parent of a slice; null for memory of a load
  nb::object keep{};  ///< owner of borrowed memory: the producer, or the memoryview that pins its buffer
  bool released = false;
  bool interface = false;  ///< `obj` is asked again before an export: its memory may have moved
  bool verified = false;   ///< the driver confirmed the place
  std::thread::id thread = std::this_thread::get_id();  ///< whose default stream an order on stream 2 means

  /// ValueError after release().
  const View& live() const;
};

/// The view, kept alive without a MemoryView.
View shared_view(const MemoryView& view);

/// A Shard and which of its dimensions are whole (`slice(None)` in JAX's index maps).
struct BoundShard {
  Shard shard;
  std::vector<bool> whole;
};

/// A shard that holds bytes.
struct BoundPlacedShard : BoundShard {
  View data;
};

/// A Plan with the catalog it was made from, which explain() reads again.
struct BoundPlan {
  Plan plan;
  std::shared_ptr<Catalog> catalog;
};

/// A Placement of one array. `plan` and `verdict` are those of the whole load.
struct BoundPlacement {
  Placement placement;
  std::shared_ptr<BoundPlan> plan;
  std::shared_ptr<Verdict> verdict;
};

// --- values that cross the border

/// A function of the package's Python half: module "loadstone.<module>".
nb::object helper(const char* module, const char* name);
/// numpy.dtype (of ml_dtypes where NumPy has none).
nb::object numpy_dtype(DType dtype);
/// An int or a sequence of ints. Error{usage} naming `what`.
Dims dims_from(nb::handle object, std::string_view what);
nb::tuple tuple_from(const Dims& dims);
/// ((begin, end), …)
nb::tuple tuple_from(const Box& box);
/// Bytes of a path or a message as str; bytes that are not UTF-8 become surrogate escapes.
nb::str path_str(std::string_view bytes);
/// The bytes of a Python bytes object.
std::string raw_bytes(nb::handle bytes);
/// The bytes of a name as path_str gave it.
std::string bytes_of(nb::str text);
/// The box as slices, `slice(None)` where whole.
nb::tuple slices_from(const Box& box, const std::vector<bool>& whole);
/// Which dimensions `sharding` leaves whole, for arrays of this shape.
std::vector<bool> whole_dims(const Sharding& sharding, const Shape& shape, const Box& box);

bool is_string(nb::handle object);
/// An int, or what converts to one; no bool and no array.
bool is_integer(nb::handle object);
/// Names as bytes; text of any bytes as str.
std::vector<std::string> bytes_of(const std::vector<nb::str>& texts);
nb::list path_strs(const std::vector<std::string>& texts);
std::string text_of(nb::handle object);
/// (id, process, memory kind, ordinal) of another library's device.
using DeviceRow = std::tuple<std::int64_t, std::int32_t, std::int32_t, std::int32_t>;
std::vector<Device> devices_from_rows(const std::vector<DeviceRow>& rows);
/// Ids and names, nested in any way, or text as on the command line. Error{usage} naming the entry.
std::vector<Device> devices_from(nb::handle object);
std::string mesh_repr(const Mesh& mesh);

/// Runs long work without the GIL. Signals (Ctrl-C) are looked for on the calling thread, at most every 50 ms; what
/// Python raises there or in the progress callback stops the work and comes out of run().
class Session {
 public:
  explicit Session(nb::object progress);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  CancelToken* cancel() { return &cancel_; }
  ProgressFn progress();

  template <typename Work>
  auto run(Work&& work) {
    try {
      auto result = [&] {
        const nb::gil_scoped_release released;
        return work();
      }();
      if (raised_) std::rethrow_exception(raised_);
      return result;
    } catch (...) {
      if (raised_) std::rethrow_exception(raised_);
      throw;
    }
  }

 private:
  bool poll();
  void keep_raised();
  nb::object callback_;
  std::exception_ptr raised_;  // guarded by the GIL
  std::int64_t last_poll_ns_ = 0;
  CancelToken cancel_;
};

}  // namespace loadstone::python
