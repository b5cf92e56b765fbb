#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace loadstone {

/// A short list of int64_t, one for each dimension: a shape, an index, strides. Up to 8 live inside the object, more on
/// the heap. A plain value.
class Dims {
 public:
  Dims() = default;
  Dims(const Dims&) = default;
  Dims& operator=(const Dims&) = default;
  ~Dims() = default;
  /// The other is left empty.
  Dims(Dims&& other) noexcept
      : ndim_(std::exchange(other.ndim_, 0)), inline_(other.inline_), heap_(std::move(other.heap_)) {
    other.heap_.clear();
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this == &other) return *this;
    ndim_ = std::exchange(other.ndim_, 0);
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    other.heap_.clear();
    return *this;
  }
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span<const std::int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) {
    resize(static_cast<int>(values.size()));
    std::copy(values.begin(), values.end(), begin());
  }
  /// ndim copies of value.
  static Dims filled(int ndim, std::int64_t value) {
    Dims out;
    out.resize(ndim);
    std::fill(out.begin(), out.end(), value);
    return out;
  }

  int size() const { return ndim_; }
  bool empty() const { return ndim_ == 0; }
  /// Keeps the values it has; new ones are 0.
  void resize(int ndim) {
    if (ndim > kInline && heap_.size() < static_cast<std::size_t>(ndim)) {
      std::vector<std::int64_t> grown(static_cast<std::size_t>(ndim), 0);
      std::copy(begin(), end(), grown.begin());
      heap_ = std::move(grown);
    } else if (ndim <= kInline && !heap_.empty()) {
      std::copy(heap_.begin(), heap_.begin() + ndim, inline_.begin());
      heap_.clear();
    }
    const int before = std::min(ndim_, ndim);
    ndim_ = ndim;
    std::fill(begin() + before, end(), 0);
  }
  void push_back(std::int64_t value) {
    resize(ndim_ + 1);
    (*this)[ndim_ - 1] = value;
  }

  std::int64_t* data() { return heap_.empty() ? inline_.data() : heap_.data(); }
  const std::int64_t* data() const { return heap_.empty() ? inline_.data() : heap_.data(); }
  std::int64_t* begin() { return data(); }
  std::int64_t* end() { return data() + ndim_; }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + ndim_; }
  std::int64_t& operator[](int d) { return data()[d]; }
  std::int64_t operator[](int d) const { return data()[d]; }
  std::int64_t& back() { return data()[ndim_ - 1]; }
  std::int64_t back() const { return data()[ndim_ - 1]; }
  std::span<const std::int64_t> span() const { return {data(), static_cast<std::size_t>(ndim_)}; }

  friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
  friend bool operator<(const Dims& a, const Dims& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr int kInline = 8;
  int ndim_ = 0;
  std::array<std::int64_t, kInline> inline_{};
  std::vector<std::int64_t> heap_;
};

/// The extent of an array along each dimension, in elements. () is one element.
using Shape = Dims;

/// Product of the extents: 1 for (). Error{data} naming the shape when an extent is negative or the product passes
/// 2^63-1.
std::int64_t num_elems(const Shape& shape);
/// Python's form: "()", "(3,)", "(3, 4)".
std::string to_string(const Dims& dims);
/// Strides in elements of a C-order (last dimension fastest) or F-order array of this shape. Extents of 0 count as 1.
Dims c_strides(const Shape& shape);
Dims f_strides(const Shape& shape);
/// Reads "3,4" or "3"; "" is (). Error{usage} naming `what` when it is not a list of non-negative integers.
Shape parse_shape(std::string_view text, std::string_view what);

}  // namespace loadstone
