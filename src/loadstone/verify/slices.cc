#include "loadstone/verify/slices.h"

#include <algorithm>

namespace loadstone::detail {

std::vector<Box> contiguous_slices(const Box& box, DType dtype, std::int64_t max_bytes) {
  if (box.empty()) return {};
  if (box.ndim() == 0) return {box};
  // Steps of packed types are multiples of 8 elements, so eight of the inner slices must fit.
  const std::int64_t inner_limit = dtype.whole_bytes() ? max_bytes : max_bytes / 8;
  int level = box.ndim() - 1;
  std::int64_t inner = 1;
  while (level > 0 && dtype.nbytes(inner * box.extent(level)) <= inner_limit) inner *= box.extent(level--);
  std::int64_t step = std::max<std::int64_t>(1, max_bytes / std::max<std::int64_t>(1, dtype.nbytes(inner)));
  if (!dtype.whole_bytes()) step = std::max<std::int64_t>(step / 8 * 8, 8);

  std::vector<Box> out;
  Box slice = box;
  for (int d = 0; d < level; ++d) slice.end[d] = slice.begin[d] + 1;
  while (true) {
    for (std::int64_t i = box.begin[level]; i < box.end[level]; i += step) {
      slice.begin[level] = i;
      slice.end[level] = std::min(i + step, box.end[level]);
      out.push_back(slice);
    }
    int d = level - 1;
    for (; d >= 0; --d) {
      if (++slice.begin[d] < box.end[d]) break;
      slice.begin[d] = box.begin[d];
      slice.end[d] = slice.begin[d] + 1;
    }
    if (d < 0) return out;
    slice.end[d] = slice.begin[d] + 1;
  }
}

std::int64_t window_bytes(std::int64_t total_bytes, int workers) {
  return std::clamp<std::int64_t>(total_bytes / (4 * std::int64_t{workers}), 256 << 10, kWindowBytes);
}

}  // namespace loadstone::detail
