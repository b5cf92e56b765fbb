#include "loadstone/handover/dlpack.h"

#include <algorithm>
#include <memory>

#include "loadstone/base/error.h"

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
  auto out = std::make_unique<Export<Managed>>();
  out->view = view;
  out->shape = view.shape();
  out->strides = view.layout().strides();
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

}  // namespace

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
