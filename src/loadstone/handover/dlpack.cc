#include "loadstone/handover/dlpack.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/handover/cuda_array_interface.h"

namespace loadstone::dlpack {

namespace {

/// The exported struct with what it points at. One allocation, freed by the deleter.
template <typename Managed>
struct Export {
  Managed managed;
  View view;
  Dims shape;
  Dims strides;
};

template <typename Managed>
void release(Managed* managed) {
  delete static_cast<Export<Managed>*>(managed->manager_ctx);
}

template <typename Managed>
Managed* export_view(const View& view) {
  if (const std::string why = unsupported(view.dtype()); !why.empty()) throw usage_error(why);
  for (const std::int64_t stride : view.layout().strides()) {
    if (stride < 0) throw usage_error("a view with negative strides is not exported to DLPack");
  }
  auto out = std::make_unique<Export<Managed>>();
  out->view = view;
  out->shape = view.shape();
  // A consumer that looks at the strides of extents of 1 finds the usual ones.
  out->strides = view.layout().contiguous() ? c_strides(view.shape()) : view.layout().strides();
  Tensor& tensor = out->managed.tensor;
  tensor.data = view.data();
  tensor.device = export_place(view.place());
  tensor.ndim = out->shape.size();
  tensor.dtype = view.dtype();
  tensor.shape = out->shape.data();
  tensor.strides = tensor.ndim > 0 ? out->strides.data() : nullptr;
  out->managed.manager_ctx = out.get();
  out->managed.deleter = &release<Managed>;
  return &out.release()->managed;
}

/// Calls the deleter of a tensor that was taken over.
template <typename Managed>
void drop(Managed* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <typename Managed>
View import_tensor(Managed* managed, bool readonly, Order order) {
  // From here on the tensor goes with the last user of `release`, also when something throws.
  const std::shared_ptr<Managed> held(managed, &drop<Managed>);
  const Tensor& tensor = managed->tensor;
  if (const std::string why = unsupported(tensor.dtype); !why.empty()) throw usage_error(why);
  if (tensor.ndim < 0 || tensor.ndim > 64) throw usage_error(cat("ndim ", tensor.ndim, ": 0 to 64 are supported"));
  if (tensor.ndim > 0 && tensor.shape == nullptr) throw usage_error(cat("shape NULL with ndim ", tensor.ndim));
  const auto ndim = static_cast<std::size_t>(tensor.ndim);
  const Shape shape = ndim > 0 ? Shape(std::span<const std::int64_t>(tensor.shape, ndim)) : Shape();
  DType dtype = tensor.dtype;
  Shape extents = shape;
  if (dtype == DType{17, 4, 2}) dtype.lanes = 1;  // PyTorch's only way to say packed float4: two to an element
  const bool paired = dtype != tensor.dtype;
  if (paired && !extents.empty()) {
    if (extents.back() > INT64_MAX / 2) throw data_error(cat("shape ", to_string(shape), " is beyond 2^63-1 elements"));
    extents.back() *= 2;
  }
  if (paired && extents.empty()) extents = Shape{2};
  for (const std::int64_t extent : extents) {
    if (extent < 0) throw usage_error(cat("shape ", to_string(shape), " has a negative dimension"));
  }
  (void)dtype.nbytes(num_elems(extents));
  Dims strides = Layout(extents).strides();
  if (ndim > 0 && tensor.strides != nullptr && !paired) {
    strides = Dims(std::span<const std::int64_t>(tensor.strides, ndim));
  } else if (ndim > 0 && tensor.strides != nullptr && num_elems(shape) > 0 &&
             !Layout(shape, Dims(std::span<const std::int64_t>(tensor.strides, ndim))).contiguous()) {
    throw usage_error("a strided tensor of packed float4 is not supported");
  }
  std::uintptr_t data = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (data != 0 && tensor.byte_offset > UINTPTR_MAX - data) {
    throw usage_error(cat("byte_offset ", tensor.byte_offset, " leaves the address space"));
  }
  if (data != 0) data += tensor.byte_offset;
  return cai::foreign_view(data, extents, strides, dtype, tensor.device, readonly, order,
                           [held](std::byte*, std::int64_t) {});
}

}  // namespace

std::string unsupported(Version version) {
  return version.major == 1 ? "" : cat("DLPack version ", version.major, ".", version.minor, ": only 1.x is known");
}

std::string unsupported(DType dtype) {
  // Codes and bits of dlpack.h 1.3; what has a name here is what is known there.
  const bool known = dtype == DType{17, 4, 2} || (!cai::is_time(dtype) && !to_string(dtype).starts_with("dtype("));
  if (known) return {};
  return cat("DLPack type (code ", int{dtype.code}, ", bits ", int{dtype.bits}, ", lanes ", int{dtype.lanes},
             ") is not supported");
}

View from_versioned(ManagedTensorVersioned* tensor, Order order) {
  if (const std::string why = unsupported(tensor->version); !why.empty()) {
    drop(tensor);  // the deleter is the one field whose place every version keeps
    throw usage_error(why);
  }
  return import_tensor(tensor, (tensor->flags & kReadOnly) != 0, order);
}

View from_legacy(ManagedTensor* tensor, bool writable, Order order) {
  return import_tensor(tensor, !writable, order);
}

Place export_place(Place place) {
  if (place.host_accessible()) place.ordinal = 0;
  return place;
}

ManagedTensorVersioned* to_versioned(const View& view, std::uint32_t minor, bool copied) {
  ManagedTensorVersioned* out = export_view<ManagedTensorVersioned>(view);
  out->version.minor = std::min(out->version.minor, minor);
  out->flags = (view.readonly() ? kReadOnly : 0) | (copied ? kIsCopied : 0);
  return out;
}

ManagedTensor* to_legacy(const View& view) {
  if (view.readonly()) {
    throw usage_error(
        "a read-only view cannot be exported as an unversioned DLPack tensor, which has no read-only bit");
  }
  return export_view<ManagedTensor>(view);
}

}  // namespace loadstone::dlpack
