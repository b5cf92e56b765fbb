#pragma once

#include <cstdint>

namespace loadstone {

/// One strided copy on a device: what the scatter kernel (cuda/scatter.cuh) and its plain twin are told. Plain data.
struct ScatterBox {
  static constexpr int kMaxDims = 6;
  const unsigned char* from;
  unsigned char* to;
  std::int64_t from_strides[kMaxDims];  ///< bytes
  std::int64_t to_strides[kMaxDims];    ///< bytes
  std::uint32_t extents[kMaxDims];      ///< in units; the last dimension varies fastest
  std::uint32_t units;                  ///< product of the extents
  std::int32_t ndim;
};

/// Copies of one launch; the y index of a thread block says which.
struct ScatterJob {
  static constexpr int kMaxBoxes = 16;
  static constexpr int kThreads = 256;
  ScatterBox boxes[kMaxBoxes];
  std::int32_t count;
  std::int32_t unit;  ///< bytes moved at once: 1, 2, 4, 8 or 16; addresses and strides are multiples of it
  std::int32_t swap;  ///< 0, or the bytes of a value (2, 4, 8; at most `unit`) whose order is reversed
};

}  // namespace loadstone
