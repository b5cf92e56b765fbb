#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "loadstone/array/dims.h"

namespace loadstone {

/// A box of index space: begin[d] <= i < end[d], in elements, for each d < ndim. Empty if any begin equals its end.
/// A box of 0 dimensions is one element.
struct Box {
  Dims begin;
  Dims end;

  static Box whole(const Shape& shape) { return {Dims::filled(shape.size(), 0), shape}; }

  int ndim() const { return begin.size(); }
  Shape shape() const;
  std::int64_t extent(int d) const { return end[d] - begin[d]; }
  bool empty() const;
  /// Number of elements. The box lies inside an array whose size fits, so this cannot overflow.
  std::int64_t num_elems() const;
  bool contains(const Box& other) const;

  friend bool operator==(const Box& a, const Box& b) { return a.begin == b.begin && a.end == b.end; }
  /// Lexicographic by begin, then end: the order of every sorted list of boxes.
  friend bool operator<(const Box& a, const Box& b) { return a.begin == b.begin ? a.end < b.end : a.begin < b.begin; }
};

/// The common part; an empty box (begin == end on some dimension) when there is none.
Box intersect(const Box& a, const Box& b);
bool overlaps(const Box& a, const Box& b);
/// box moved so that `origin` becomes its index 0.
Box relative_to(const Box& box, const Dims& origin);
/// Linear C-order element index of `index` inside `box` (index given in the same coordinates as box).
std::int64_t linear_index(const Dims& index, const Box& box);
/// "[0:3, 4:8]"; whole dimensions are ":" when `shape` is given.
std::string to_string(const Box& box);
std::string to_string(const Box& box, const Shape& shape);

}  // namespace loadstone
