#pragma once

#include <cstdint>
#include <string_view>

namespace loadstone {

/// Bytes of an element of a NumPy type string whose type a file has lost (V2, f1) or which is a time, so that --dtype
/// may name it; 0 for others.
std::int64_t nameable_itemsize(std::string_view typestr);

}  // namespace loadstone
