#pragma once

#include <cstdint>

#include "loadstone/array/box.h"
#include "loadstone/array/dims.h"

namespace loadstone {

/// Shape and strides, both in elements, with what follows from them. Strides may be 0 or negative.
/// A dimension of extent 1 never breaks contiguity; an array of 0 elements is contiguous.
class Layout {
 public:
  Layout() : Layout(Shape{}) {}
  /// C order.
  explicit Layout(Shape shape);
  /// Error{usage} when the numbers of dimensions differ, an extent is negative, or an offset passes 2^63-1.
  Layout(Shape shape, Dims strides);

  const Shape& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  int ndim() const { return shape_.size(); }
  std::int64_t num_elems() const { return num_elems_; }
  bool contiguous() const { return contiguous_; }
  /// Least and greatest element offset from element 0; both 0 when there are no elements.
  std::int64_t min_offset() const { return min_offset_; }
  std::int64_t max_offset() const { return max_offset_; }
  /// Element offset of `index`. Not bounds-checked.
  std::int64_t offset(const Dims& index) const;

  friend bool operator==(const Layout& a, const Layout& b) { return a.shape_ == b.shape_ && a.strides_ == b.strides_; }

 private:
  void derive();
  Shape shape_;
  Dims strides_;
  std::int64_t num_elems_ = 1;
  std::int64_t min_offset_ = 0;
  std::int64_t max_offset_ = 0;
  bool contiguous_ = true;
};

}  // namespace loadstone
