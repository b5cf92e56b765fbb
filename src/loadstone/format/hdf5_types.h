#pragma once

#include <optional>
#include <string>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"
#include "loadstone/format/hdf5_library.h"

namespace loadstone::hdf5 {

/// A type in a file, as an element that can be placed.
struct ElementType {
  std::optional<DiskType> element;  ///< nullopt: `what` says what it is instead
  Shape inner;                      ///< dimensions of an array type, which follow those of the dataset
  std::string what;                 ///< "a compound of a, b", "opaque (2 bytes)", …
  bool lost = false;                ///< opaque or a time: --dtype may name it
  std::int64_t size_bytes = 0;
};

/// The mutex is held.
ElementType element_type(const Library& lib, hid_t type);

}  // namespace loadstone::hdf5
