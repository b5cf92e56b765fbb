#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadstone/array/dtype.h"
#include "loadstone/format/flatbuffer.h"

namespace loadstone {

/// One field of an Arrow schema with what its columns occupy in a record batch.
struct ArrowField {
  std::string name;
  DType dtype;                           ///< of the elements; meaningless with a refusal
  bool bits = false;                     ///< booleans, eight to a byte
  std::string time;                      ///< "timestamp", "date", …: ticks, loaded when a dtype is named
  std::string refusal;                   ///< why no array can be made of it, or ""
  std::vector<std::int64_t> list_sizes;  ///< of nested fixed-size lists, outermost first; -1 = a list with offsets
  bool large_offsets = false;            ///< 64-bit offsets
  int nodes = 0;                         ///< FieldNodes that it takes in a record batch, its children's included
  int buffers = 0;                       ///< buffers, likewise
  bool variadic = false;                 ///< has a number of buffers that each batch says: nothing behind it is found
};

/// The top-level fields. Error{data} for metadata that points outside itself or nests without end.
std::vector<ArrowField> arrow_fields(const FlatTable& schema);

}  // namespace loadstone
