#include "loadstone/array/box.h"

#include <algorithm>

#include "loadstone/base/cat.h"

namespace loadstone {

Shape Box::shape() const {
  Shape out = Dims::filled(ndim(), 0);
  for (int d = 0; d < ndim(); ++d) out[d] = extent(d);
  return out;
}

bool Box::empty() const {
  for (int d = 0; d < ndim(); ++d) {
    if (begin[d] >= end[d]) return true;
  }
  return false;
}

std::int64_t Box::num_elems() const {
  if (empty()) return 0;  // first: the other extents of an empty box may be anything
  std::int64_t count = 1;
  for (int d = 0; d < ndim(); ++d) count *= extent(d);
  return count;
}

bool Box::contains(const Box& other) const {
  for (int d = 0; d < ndim(); ++d) {
    if (other.begin[d] < begin[d] || other.end[d] > end[d]) return false;
  }
  return true;
}

Box intersect(const Box& a, const Box& b) {
  Box out = a;
  for (int d = 0; d < a.ndim(); ++d) {
    out.begin[d] = std::max(a.begin[d], b.begin[d]);
    out.end[d] = std::max(out.begin[d], std::min(a.end[d], b.end[d]));
  }
  return out;
}

bool overlaps(const Box& a, const Box& b) {
  return !intersect(a, b).empty();
}

Box relative_to(const Box& box, const Dims& origin) {
  Box out = box;
  for (int d = 0; d < box.ndim(); ++d) {
    out.begin[d] -= origin[d];
    out.end[d] -= origin[d];
  }
  return out;
}

std::int64_t linear_index(const Dims& index, const Box& box) {
  std::int64_t linear = 0;
  for (int d = 0; d < box.ndim(); ++d) linear = linear * box.extent(d) + (index[d] - box.begin[d]);
  return linear;
}

std::string to_string(const Box& box) {
  std::string out = "[";
  for (int d = 0; d < box.ndim(); ++d) out += cat(d > 0 ? ", " : "", box.begin[d], ":", box.end[d]);
  return out + "]";
}

std::string to_string(const Box& box, const Shape& shape) {
  std::string out = "[";
  for (int d = 0; d < box.ndim(); ++d) {
    if (d > 0) out += ", ";
    out += box.begin[d] == 0 && box.end[d] == shape[d] ? ":" : cat(box.begin[d], ":", box.end[d]);
  }
  return out + "]";
}

}  // namespace loadstone
