#pragma once

#include <cstdint>
#include <string>

#include "loadstone/array/view.h"

/// Views as DLPack tensors, and back. The structs are ours, layout-equal to those of dlpack.h 1.3 (no header to
/// install). Nothing here waits: a caller decides what an Order means to its consumer.
namespace loadstone::dlpack {

struct Version {
  std::uint32_t major = 1;
  std::uint32_t minor = 3;
};

/// Layout-equal to DLTensor.
struct Tensor {
  void* data = nullptr;  ///< element 0; nullptr if and only if there are no elements
  Place device;
  std::int32_t ndim = 0;
  DType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  ///< in elements; always given for ndim > 0
  std::uint64_t byte_offset = 0;    ///< always 0 on export
};

/// Layout-equal to DLManagedTensor ("dltensor").
struct ManagedTensor {
  Tensor tensor;
  void* manager_ctx = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};

inline constexpr std::uint64_t kReadOnly = 1;  ///< DLPACK_FLAG_BITMASK_READ_ONLY
inline constexpr std::uint64_t kIsCopied = 2;  ///< DLPACK_FLAG_BITMASK_IS_COPIED
inline constexpr std::uint64_t kPadded = 4;    ///< DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED

/// Layout-equal to DLManagedTensorVersioned ("dltensor_versioned").
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx = nullptr;
  void (*deleter)(ManagedTensorVersioned*) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};

static_assert(sizeof(void*) == 8 && sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64);
static_assert(sizeof(ManagedTensorVersioned) == 80);

/// Why a tensor of this version and type cannot be imported, or "". Only major version 1 may be looked into at all.
std::string unsupported(Version version);
std::string unsupported(DType dtype);

/// The view that a tensor describes; it takes the tensor over and calls its deleter (which may be null) when the last
/// user is gone, or before it throws. NULL strides mean C order; byte_offset is added. A broadcast view is read-only.
/// Error{usage} naming the field: an unsupported type, pointer 0 with elements, a negative or more than 64 dimensions.
/// Error{data} when shape or extent pass 2^63-1.
View from_versioned(ManagedTensorVersioned* tensor, Order order = {});
/// The unversioned form cannot say whether bytes may be written: read-only unless the caller knows better.
View from_legacy(ManagedTensor* tensor, bool writable = false, Order order = {});

/// The device an export names. `cpu:3` is a label of ours: host, pinned and managed memory say ordinal 0.
Place export_place(Place place);

/// Error{usage} for what DLPack cannot say: datetime64 and timedelta64, negative strides (PyTorch aborts on them).
/// Shares the view's memory until the deleter is called (from any thread). The tensor belongs to the caller. `minor` is
/// the consumer's newest minor version of major 1. `copied`: the bytes were copied for this export.
ManagedTensorVersioned* to_versioned(const View& view, std::uint32_t minor = 3, bool copied = false);

/// The same for consumers that know only the unversioned form. It cannot say that bytes are read-only: Error{usage} for
/// a read-only view.
ManagedTensor* to_legacy(const View& view);

}  // namespace loadstone::dlpack
