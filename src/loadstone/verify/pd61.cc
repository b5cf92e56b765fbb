#include "loadstone/verify/pd61.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/pd61_kernel.h"

namespace loadstone {

using detail::add61;
using detail::kPd61BlockWords;
using detail::mul61;
using detail::Pd61Mix;
using detail::reduce61;
using detail::Wide;

namespace {

constexpr std::int64_t kRowBytes = 4096;
constexpr int kMaxOuterDims = 60;  // F(61, ·) and F(62, ·) are taken by the words of a row
constexpr std::int64_t kGatherBytes = 16 << 10;
constexpr int kVectorWords = 16;  // below, setting up the vector sums costs more than they save

using Lanes = std::array<std::uint64_t, 2>;

bool scalar_forced() {
  const char* value = std::getenv("LOADSTONE_PD61");
  return value != nullptr && std::string_view(value) == "scalar";
}

/// The largest m with a row of dimensions m.. of at least 4096 bytes, else 0. Rows of packed types end at a byte.
int merged_row_dim(const Shape& shape, DType dtype) {
  std::int64_t elems = 1;
  for (int m = shape.size(); m >= 0; --m) {
    if (m < shape.size()) elems *= shape[m];
    const bool whole = dtype.whole_bytes() || (elems * dtype.elem_bits()) % 8 == 0;
    if (whole && dtype.nbytes(elems) >= kRowBytes) return m;
  }
  return 0;
}

/// Σ word · F(61, k>>10) · F(62, k&1023) over runs of bytes of one row, in any order; fastest when ascending.
template <std::size_t kLanes>
class RowSum {
 public:
  RowSum(const detail::Pd61Tables& tables, const Pd61Keys& keys)
      : tables_(tables), block_mix_{Pd61Mix::of(keys.k0, 61), Pd61Mix::of(keys.k1, 61)} {
    const detail::Pd61Kernel fast = scalar_forced() ? nullptr : detail::pd61_avx2_kernel(kLanes);
    kernel_ = fast != nullptr ? fast : detail::pd61_scalar_kernel(kLanes);
  }

  /// The bytes [offset, offset + n) of the row.
  void add(std::int64_t offset, const std::byte* data, std::int64_t n) {
    auto k = static_cast<std::uint64_t>(offset) >> 2;
    const auto head = static_cast<unsigned>(offset & 3);
    if (n > 0 && (head != 0 || n < 4)) {
      const std::int64_t take = std::min<std::int64_t>(4 - std::int64_t{head}, n);
      add_part(k++, data, take, head);
      data += take;
      n -= take;
    }
    if (n >= 4) {
      add_words(k, data, n / 4);
      k += static_cast<std::uint64_t>(n / 4);
      data += n & ~std::int64_t{3};
      n &= 3;
    }
    if (n > 0) add_part(k, data, n, 0);
  }

  /// Whole words from word k of the row.
  void add_words(std::uint64_t k, const std::byte* data, std::int64_t words) {
    while (words > 0) {
      const std::uint64_t first = k & (kPd61BlockWords - 1);
      const std::int64_t count = std::min<std::int64_t>(words, kPd61BlockWords - static_cast<std::int64_t>(first));
      enter(static_cast<std::int64_t>(k / kPd61BlockWords));
      if (count >= kVectorWords) {
        kernel_(tables_, data, static_cast<int>(first), static_cast<int>(count), sums_.data());
      } else {
        add_few(first, data, count);
      }
      k += static_cast<std::uint64_t>(count);
      data += 4 * count;
      words -= count;
    }
  }

  /// The sum of the row so far; starts the next row.
  Lanes take() {
    leave();
    block_ = -1;
    return std::exchange(total_, Lanes{});
  }

 private:
  void add_few(std::uint64_t first, const std::byte* data, std::int64_t count) {
    std::array<Wide, kLanes> sums = sums_;
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, data + 4 * i, 4);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] += static_cast<Wide>(word) * tables_.whole[lane][first + static_cast<std::uint64_t>(i)];
      }
    }
    sums_ = sums;
  }

  // The other bytes of a shared word count 0, so partial words add without carries.
  void add_part(std::uint64_t k, const std::byte* data, std::int64_t bytes, unsigned at) {
    std::uint32_t word = 0;
    for (unsigned b = 0; b < static_cast<unsigned>(bytes); ++b)
      word |= std::to_integer<std::uint32_t>(data[b]) << (8 * b);
    word <<= 8 * at;
    enter(static_cast<std::int64_t>(k / kPd61BlockWords));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums_[lane] += static_cast<Wide>(word) * tables_.whole[lane][k % kPd61BlockWords];
    }
  }

  void enter(std::int64_t block) {
    if (block == block_) return;
    leave();
    block_ = block;
  }

  void leave() {
    if (block_ < 0) return;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t coefficient = block_mix_[lane](static_cast<std::uint64_t>(block_));
      total_[lane] = add61(total_[lane], mul61(reduce61(sums_[lane]), coefficient));
      sums_[lane] = 0;
    }
  }

  const detail::Pd61Tables& tables_;
  std::array<Pd61Mix, 2> block_mix_;
  detail::Pd61Kernel kernel_ = nullptr;
  std::int64_t block_ = -1;
  std::array<Wide, kLanes> sums_{};
  Lanes total_{};
};

/// One tile being summed: walks the rows, and in each row the runs that are contiguous in the row and in memory.
template <std::size_t kLanes>
class TileWalk {
 public:
  TileWalk(const Shape& shape, DType dtype, const Box& box, const Dims& strides, int row_dim, RowSum<kLanes>& row)
      : shape_(shape), box_(box), strides_(strides), elem_bits_(dtype.elem_bits()), row_dim_(row_dim), row_(row) {
    const int ndim = shape.size();
    row_step_ = Dims::filled(ndim, 1);
    for (int d = ndim - 1; d > 0; --d) row_step_[d - 1] = row_step_[d] * shape[d];
    row_elems_ = row_dim < ndim ? row_step_[row_dim] * shape[row_dim] : 1;
    // Dimensions after run_dim_ are whole, so a run of the row spans run_dim_ and all after it.
    run_dim_ = ndim;
    while (run_dim_ > row_dim && (run_dim_ == ndim || box.extent(run_dim_) == shape[run_dim_])) --run_dim_;
    if (dtype.whole_bytes()) {
      const int contiguous = contiguous_dim(dtype.itemsize());
      gather_ = contiguous == ndim && contiguous > run_dim_;
      if (!gather_) run_dim_ = std::max(run_dim_, contiguous);
    }
    run_elems_ = 1;
    for (int d = run_dim_; d < ndim; ++d) run_elems_ *= box.extent(d);
    first_elem_ = 0;
    for (int d = row_dim; d < ndim; ++d) first_elem_ += box.begin[d] * row_step_[d];
  }

  Lanes sum(const std::byte* data, const Pd61Keys& keys) {
    mixes_.reserve(static_cast<std::size_t>(row_dim_));
    for (int d = 0; d < row_dim_; ++d) {
      const auto t = static_cast<std::uint64_t>(d);
      mixes_.push_back({Pd61Mix::of(keys.k0, t), Pd61Mix::of(keys.k1, t)});
    }
    return outer(0, data);
  }

 private:
  /// The first dimension from which on the box lies in memory without gaps.
  int contiguous_dim(std::int64_t itemsize) const {
    std::int64_t expected = itemsize;
    int d = shape_.size();
    while (d > run_dim_ && (box_.extent(d - 1) == 1 || strides_[d - 1] == expected)) {
      --d;
      expected *= box_.extent(d);
    }
    return d;
  }

  Lanes outer(int d, const std::byte* data) {
    if (d == row_dim_) {
      in_row(d, data, first_elem_);
      return row_.take();
    }
    Lanes total{};
    for (std::int64_t i = box_.begin[d]; i < box_.end[d]; ++i) {
      const Lanes inner = outer(d + 1, data);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const std::uint64_t coefficient = mixes_[static_cast<std::size_t>(d)][lane](static_cast<std::uint64_t>(i));
        total[lane] = add61(total[lane], mul61(inner[lane], coefficient));
      }
      data += strides_[d];
    }
    return total;
  }

  /// `elem`: element of the row where the box begins at these indices.
  void in_row(int d, const std::byte* data, std::int64_t elem) {
    if (d == run_dim_) return run(data, elem);
    const std::int64_t extent = box_.extent(d);
    if (d + 1 == run_dim_ && !gather_ && elem_bits_ % 32 == 0) return word_runs(d, data, elem);
    for (std::int64_t i = 0; i < extent; ++i) in_row(d + 1, data + i * strides_[d], elem + i * row_step_[d]);
  }

  /// All runs along the last dimension before them, when they are whole words.
  void word_runs(int d, const std::byte* data, std::int64_t elem) {
    const std::int64_t words = elem_bits_ / 32;
    auto k = static_cast<std::uint64_t>(elem * words);
    const auto step = static_cast<std::uint64_t>(row_step_[d] * words);
    const std::int64_t count = run_elems_ * words;
    const std::int64_t extent = box_.extent(d);
    for (std::int64_t i = 0; i < extent; ++i, k += step) row_.add_words(k, data + i * strides_[d], count);
  }

  void run(const std::byte* data, std::int64_t first) {
    if (gather_) return gather(data, first);
    if (elem_bits_ % 8 == 0) return row_.add(first * (elem_bits_ / 8), data, run_elems_ * (elem_bits_ / 8));
    packed_run(data, first);
  }

  void packed_run(const std::byte* data, std::int64_t first) {
    const std::int64_t begin = first * elem_bits_;
    const std::int64_t end = begin + run_elems_ * elem_bits_;
    if (begin % 8 != 0 || (end % 8 != 0 && first + run_elems_ != row_elems_)) {
      throw usage_error(cat("box ", to_string(box_), " of an array of shape ", to_string(shape_), " cuts a byte of a ",
                            elem_bits_, "-bit type"));
    }
    const std::int64_t bytes = (end - begin) / 8;
    row_.add(begin / 8, data, bytes);
    const auto rest = static_cast<unsigned>(end % 8);
    if (rest != 0) {  // bits after the last element are padding, whatever they hold
      const std::byte last = data[bytes] & static_cast<std::byte>((1U << rest) - 1U);
      row_.add(begin / 8 + bytes, &last, 1);
    }
  }

  /// A run whose elements lie apart in memory: dimensions run_dim_.. of the box, copied together piece by piece.
  void gather(const std::byte* data, std::int64_t first) {
    const std::int64_t itemsize = elem_bits_ / 8;
    const int last = shape_.size() - 1;
    const std::int64_t inner = box_.extent(last);
    const std::int64_t step = std::clamp<std::int64_t>(kGatherBytes / itemsize, 1, inner);
    // Whole innermost rows at once when they are short, else parts of one.
    const int level = step == inner && last > run_dim_ ? last - 1 : last;
    const std::int64_t rows = level == last ? 1 : std::max<std::int64_t>(kGatherBytes / itemsize / inner, 1);
    buffer_.resize(static_cast<std::size_t>(std::max(step, rows * inner) * itemsize));
    gather_dims(run_dim_, level, level == last ? step : rows, data, first * itemsize);
  }

  std::int64_t gather_dims(int d, int level, std::int64_t step, const std::byte* data, std::int64_t offset) {
    if (d < level) {
      for (std::int64_t i = 0; i < box_.extent(d); ++i)
        offset = gather_dims(d + 1, level, step, data + i * strides_[d], offset);
      return offset;
    }
    const std::int64_t itemsize = elem_bits_ / 8;
    for (std::int64_t i = 0; i < box_.extent(d); i += step) {
      Dims extents;
      Dims from;
      Dims to;
      for (int k = d; k < shape_.size(); ++k) {
        extents.push_back(k == d ? std::min(step, box_.extent(d) - i) : box_.extent(k));
        from.push_back(strides_[k]);
      }
      to = c_strides(extents);
      std::int64_t bytes = itemsize;
      for (int k = 0; k < extents.size(); ++k) {
        to[k] *= itemsize;
        bytes *= extents[k];
      }
      // strided_copy only reads its source; the type has one member for both sides.
      strided_copy({buffer_.data(), to}, {const_cast<std::byte*>(data) + i * strides_[d], from}, extents, itemsize);
      row_.add(offset, buffer_.data(), bytes);
      offset += bytes;
    }
    return offset;
  }

  const Shape& shape_;
  const Box& box_;
  const Dims& strides_;
  std::int64_t elem_bits_;
  int row_dim_;
  RowSum<kLanes>& row_;
  int run_dim_ = 0;
  Dims row_step_;  // elements of the row for a step of each dimension
  std::int64_t row_elems_ = 1;
  std::int64_t first_elem_ = 0;
  std::int64_t run_elems_ = 1;
  bool gather_ = false;
  std::vector<std::array<Pd61Mix, 2>> mixes_;
  std::vector<std::byte> buffer_;
};

/// Byte strides of C-contiguous bytes. For packed types those of the runs are right, which is all that is used.
Dims contiguous_strides(const Box& box, DType dtype) {
  Dims strides = c_strides(box.shape());
  for (int d = 0; d < strides.size(); ++d) strides[d] = strides[d] * dtype.elem_bits() / 8;
  return strides;
}

std::string hex16(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(16, '0');
  for (std::size_t i = 0; i < 16; ++i) out[15 - i] = kDigits[(value >> (4 * i)) & 15];
  return out;
}

}  // namespace

Pd61Value& Pd61Value::operator+=(const Pd61Value& other) {
  for (std::size_t lane = 0; lane < 2; ++lane) lanes[lane] = add61(lanes[lane], other.lanes[lane]);
  return *this;
}

std::string to_string(const Pd61Value& value) {
  return cat(hex16(value.lanes[0]), "-", hex16(value.lanes[1]));
}

Pd61::Pd61(const Shape& global_shape, DType dtype, Pd61Keys keys, int lanes)
    : shape_(global_shape), dtype_(dtype), keys_(keys), lanes_(lanes), row_dim_(0) {
  if (lanes != 1 && lanes != 2) throw usage_error(cat("a digest has 1 or 2 lanes, not ", lanes));
  if (dtype.nbytes(num_elems(global_shape)) > 0) row_dim_ = merged_row_dim(global_shape, dtype);
  if (row_dim_ > kMaxOuterDims) {
    throw data_error(cat("shape ", to_string(global_shape), " has ", row_dim_, " dimensions before its rows: at most ",
                         kMaxOuterDims, " can be digested"));
  }
  tables_ = detail::Pd61Tables::of(keys);
}

Pd61Value Pd61::tile(const Box& box, const std::byte* data, const Dims& strides_bytes) const {
  if (box.ndim() != shape_.size() || strides_bytes.size() != shape_.size() || !Box::whole(shape_).contains(box)) {
    throw usage_error(cat("box ", to_string(box), " does not lie inside an array of shape ", to_string(shape_)));
  }
  if (box.empty()) return {};
  const auto sum = [&]<std::size_t kLanes>(RowSum<kLanes> row) {
    return Pd61Value{TileWalk<kLanes>(shape_, dtype_, box, strides_bytes, row_dim_, row).sum(data, keys_)};
  };
  return lanes_ == 1 ? sum(RowSum<1>(*tables_, keys_)) : sum(RowSum<2>(*tables_, keys_));
}

Pd61Value Pd61::tile(const Box& box, const std::byte* data) const {
  return tile(box, data, contiguous_strides(box, dtype_));
}

std::string pd61_backend() {
  return !scalar_forced() && detail::pd61_avx2_kernel(1) != nullptr ? "avx2" : "scalar";
}

}  // namespace loadstone
