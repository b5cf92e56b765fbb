#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"

namespace loadstone {

namespace detail {
struct Pd61Tables;
}

/// Keys of the two lanes. The defaults are the manifest's: two runs print the same.
struct Pd61Keys {
  std::uint64_t k0 = 0x0123456789abcdefULL;
  std::uint64_t k1 = 0xfedcba9876543210ULL;
  friend bool operator==(const Pd61Keys&, const Pd61Keys&) = default;
};

/// The value of a digest: one sum mod 2^61-1 a lane. Lane 1 is 0 when only one lane is taken.
struct Pd61Value {
  std::array<std::uint64_t, 2> lanes{};
  Pd61Value& operator+=(const Pd61Value& other);
  friend bool operator==(const Pd61Value&, const Pd61Value&) = default;
};
/// 16 hex digits a lane: "0d70050fd00d2524-0675dfc87d8e47f1".
std::string to_string(const Pd61Value& value);

/// The placement digest PD61 of arrays of one global shape and dtype: binds every byte to its position; the digests of
/// the tiles of *any* partition sum to that of the array (mod 2^61-1). Definition and error bound: docs/digest.md.
class Pd61 {
 public:
  /// Error{data} when the shape overflows.
  Pd61(const Shape& global_shape, DType dtype, Pd61Keys keys = {}, int lanes = 2);

  /// Sum over the elements of `box` (global indices); data points at box.begin, with a byte stride for each dimension
  /// (native little-endian elements). Packed types: the runs of whole bytes that the box cuts out of the array, each
  /// contiguous; a box that cuts a byte is refused (Error{usage}), and so is one outside the array. Safe from any
  /// thread.
  Pd61Value tile(const Box& box, const std::byte* data, const Dims& strides_bytes) const;
  /// The same for C-contiguous bytes.
  Pd61Value tile(const Box& box, const std::byte* data) const;

  int lanes() const { return lanes_; }
  const Pd61Keys& keys() const { return keys_; }
  /// Dimension from which on all dimensions merge into one row (m of the definition).
  int row_dim() const { return row_dim_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

 private:
  Shape shape_;
  DType dtype_;
  Pd61Keys keys_;
  int lanes_;
  int row_dim_;
  std::shared_ptr<const detail::Pd61Tables> tables_;
};

/// Which inner loop runs here: "avx2" or "scalar". LOADSTONE_PD61=scalar in the environment forces the plain one.
std::string pd61_backend();

}  // namespace loadstone
