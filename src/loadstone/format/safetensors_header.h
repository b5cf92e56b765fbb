#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/array/dtype.h"

namespace loadstone {

/// One tensor as the header says it; offsets count from the end of the header.
struct SafeTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::int64_t begin = 0, end = 0;
};

/// Reads the JSON of a safetensors header and checks it against the `payload_bytes` behind it: tensors in the order of
/// their bytes, without holes, overlaps or bytes left over. Error{data} without a file name.
/// Source: https://huggingface.co/docs/safetensors (format), safetensors 0.6 src/tensor.rs
std::vector<SafeTensor> parse_safetensors_header(std::string_view json, std::int64_t payload_bytes);

/// The format's word for a type ("BF16"), or "" when it has none.
std::string_view safetensors_type(DType dtype);

}  // namespace loadstone
