// A DLPack tensor and an array interface as an importer sees them, with any values in any field. What is accepted must
// lie inside the bytes that its memory claims, and every deleter runs exactly once. No byte of the memory is touched.
#include <algorithm>
#include <cstring>
#include <string>

#include "loadstone/handover/cuda_array_interface.h"
#include "loadstone/handover/dlpack.h"
#include "tests/fuzz/fuzz.h"

using namespace loadstone;

namespace {

/// Fields from the input's bytes; 0 when they are used up.
class Fields {
 public:
  Fields(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  template <typename T>
  T take() {
    T out{};
    const std::size_t bytes = std::min(sizeof(T), size_);
    std::memcpy(&out, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return out;
  }
  /// Small numbers, extremes and anything.
  std::int64_t extent() {
    const auto kind = take<std::uint8_t>();
    if (kind < 160) return kind % 8;
    if (kind < 200) return std::int64_t{1} << (kind % 64);
    return take<std::int64_t>();
  }
  std::string text(std::size_t most) {
    std::string out(std::min<std::size_t>(take<std::uint8_t>() % (most + 1), size_), '\0');
    for (char& c : out) c = take<char>();
    return out;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

void check(const View& view) {
  const Layout& layout = view.layout();
  fuzz::require((view.data() == nullptr) == (layout.num_elems() == 0));
  if (view.data() == nullptr) return;
  const auto base = reinterpret_cast<std::uintptr_t>(view.memory()->base());
  const auto data = reinterpret_cast<std::uintptr_t>(view.data());
  fuzz::require(base <= data && view.memory()->bytes() > 0);
  fuzz::require(data - base < static_cast<std::uintptr_t>(view.memory()->bytes()));
  fuzz::only_blames_input([&] {
    const cai::Interface out = cai::export_view(view);
    fuzz::require(out.address == data && out.version == 3);
  });
  fuzz::only_blames_input([&] {
    dlpack::ManagedTensorVersioned* out = dlpack::to_versioned(view);
    fuzz::require(out->tensor.data == view.data());
    out->deleter(out);
  });
}

void try_dlpack(Fields fields) {
  std::int64_t shape[80];
  std::int64_t strides[80];
  int deleted = 0;
  dlpack::ManagedTensorVersioned managed;
  const auto choices = fields.take<std::uint8_t>();
  managed.version.major = (choices & 1) != 0 ? 1 : fields.take<std::uint32_t>();
  managed.flags = fields.take<std::uint64_t>();
  managed.manager_ctx = &deleted;
  const bool with_deleter = (choices & 2) == 0;
  if (with_deleter) {
    managed.deleter = [](dlpack::ManagedTensorVersioned* self) { ++*static_cast<int*>(self->manager_ctx); };
  }
  dlpack::Tensor& tensor = managed.tensor;
  tensor.ndim = (choices & 4) != 0 ? fields.take<std::int32_t>() : fields.take<std::uint8_t>() % 5;
  tensor.dtype = {fields.take<std::uint8_t>(), fields.take<std::uint8_t>(), fields.take<std::uint16_t>()};
  if ((choices & 64) != 0) tensor.dtype = dtypes::kFloat32;
  tensor.data = reinterpret_cast<void*>(fields.take<std::uintptr_t>());
  tensor.byte_offset = (choices & 8) != 0 ? fields.take<std::uint64_t>() : 0;
  for (std::int64_t& extent : shape) extent = fields.extent();
  for (std::int64_t& stride : strides) stride = fields.extent();
  tensor.shape = (choices & 16) != 0 ? nullptr : shape;
  tensor.strides = (choices & 32) != 0 ? nullptr : strides;
  fuzz::only_blames_input([&] { check(dlpack::from_versioned(&managed)); });
  fuzz::require(deleted == (with_deleter ? 1 : 0));
}

void try_interface(Fields fields) {
  cai::Interface interface;
  const auto choices = fields.take<std::uint8_t>();
  interface.version = fields.extent();
  interface.typestr = (choices & 1) != 0 ? "<f4" : fields.text(8);
  interface.address = fields.take<std::uintptr_t>();
  interface.readonly = (choices & 2) != 0;
  const int ndim = fields.take<std::uint8_t>() % ((choices & 4) != 0 ? 70 : 5);
  for (int d = 0; d < ndim; ++d) interface.shape.push_back(fields.extent());
  if ((choices & 8) != 0) {
    interface.strides = Dims{};
    const int given = (choices & 16) != 0 ? fields.take<std::uint8_t>() % 70 : ndim;
    for (int d = 0; d < given; ++d) interface.strides->push_back(fields.extent());
  }
  if ((choices & 32) != 0) interface.stream = fields.extent();
  fuzz::only_blames_input([&] { check(cai::import_view(interface, Place{PlaceKind::cuda, 0})); });
  fuzz::only_blames_input([&] { check(cai::import_view(interface, Place{}, dtypes::kBFloat16, Order{})); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Fields fields(data + 1, size - 1);
  if ((data[0] & 1) != 0) {
    try_dlpack(fields);
  } else {
    try_interface(fields);
  }
  return 0;
}
