#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "loadstone/array/dtype.h"

namespace loadstone {

/// One element in native order from text, as `--fill` and metadata give it: integers in range (decimal), "true" and
/// "false" (or 0 and 1) for bool, decimal floats with "nan", "inf", "-inf" rounded to nearest even (float16, bfloat16,
/// float32, float64), one number as the real part of a complex. Error{usage} naming text and type otherwise.
std::vector<std::byte> parse_element(std::string_view text, DType dtype);

}  // namespace loadstone
