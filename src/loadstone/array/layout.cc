#include "loadstone/array/layout.h"

#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"

namespace loadstone {

Layout::Layout(Shape shape) : shape_(std::move(shape)) {
  num_elems_ = loadstone::num_elems(shape_);
  strides_ = num_elems_ > 0 ? c_strides(shape_) : Dims::filled(shape_.size(), 0);
  derive();
}

Layout::Layout(Shape shape, Dims strides) : shape_(std::move(shape)), strides_(std::move(strides)) {
  if (shape_.size() != strides_.size()) {
    throw usage_error(cat("layout: ", shape_.size(), " extents but ", strides_.size(), " strides"));
  }
  for (const std::int64_t extent : shape_) {
    if (extent < 0) throw usage_error(cat("layout: shape ", to_string(shape_), " has a negative dimension"));
  }
  num_elems_ = loadstone::num_elems(shape_);
  derive();
}

void Layout::derive() {
  if (num_elems_ == 0) return;
  std::int64_t expected = 1;
  for (int d = ndim() - 1; d >= 0; --d) {
    if (shape_[d] == 1) continue;
    contiguous_ = contiguous_ && strides_[d] == expected;
    expected *= shape_[d];
  }
  for (int d = 0; d < ndim(); ++d) {
    const auto reach = checked_mul(strides_[d], shape_[d] - 1);
    const auto sum = reach ? checked_add(*reach < 0 ? min_offset_ : max_offset_, *reach) : std::nullopt;
    if (!sum) {
      throw usage_error(cat("layout: shape ", to_string(shape_), " with strides ", to_string(strides_),
                            " reaches beyond 2^63-1 elements"));
    }
    (*reach < 0 ? min_offset_ : max_offset_) = *sum;
  }
}

std::int64_t Layout::offset(const Dims& index) const {
  std::int64_t out = 0;
  for (int d = 0; d < ndim(); ++d) out += index[d] * strides_[d];
  return out;
}

}  // namespace loadstone
