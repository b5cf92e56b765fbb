// Comparing shards byte by byte, only after an accusation.
#include <algorithm>
#include <cstring>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/verify/check.h"
#include "loadstone/verify/slices.h"

namespace loadstone::detail {

namespace {

Box moved(const Box& relative, const Dims& origin) {
  Box out = relative;
  for (int d = 0; d < out.ndim(); ++d) {
    out.begin[d] += origin[d];
    out.end[d] += origin[d];
  }
  return out;
}

/// Hex of the `bits` bits that begin at bit `at`, most significant first.
std::string bits_text(const std::byte* data, std::int64_t at, std::int64_t bits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::int64_t low = 0; low < bits; low += 4) {
    unsigned digit = 0;
    for (std::int64_t b = low; b < std::min(low + 4, bits); ++b) {
      const std::int64_t bit = at + b;
      digit |= ((std::to_integer<unsigned>(data[bit / 8]) >> (bit % 8)) & 1U) << (b - low);
    }
    out.push_back(kDigits[digit]);
  }
  std::reverse(out.begin(), out.end());
  return "0x" + out;
}

Dims index_of(std::int64_t linear, const Box& box) {
  Dims index = box.begin;
  for (int d = box.ndim() - 1; d >= 0; --d) {
    index[d] += linear % box.extent(d);
    linear /= box.extent(d);
  }
  return index;
}

}  // namespace

std::byte* Scratch::a() {
  if (!a_) a_ = Memory::allocate_host(kBytes);
  return a_->base();
}

std::byte* Scratch::b() {
  if (!b_) b_ = Memory::allocate_host(kBytes);
  return b_->base();
}

Fetch memory_of(const Check& check, const Holder& holder) {
  return [&check, &holder](const Box& slice, std::byte* scratch) -> const std::byte* {
    const Box part = moved(slice, holder.shard.box.begin);
    if (holder.on_gpu && holder.held->data.layout().contiguous()) {
      holder.fetch(part, check.bytes_of(part), scratch);
      return scratch;
    }
    const std::byte* first = holder.at(part);
    if (holder.held->data.layout().contiguous()) return first;
    const std::int64_t itemsize = check.dtype.itemsize();
    Dims packed = c_strides(slice.shape());
    for (std::int64_t& stride : packed) stride *= itemsize;
    // strided_copy only reads its source; the type has one member for both sides.
    strided_copy({scratch, packed}, {const_cast<std::byte*>(first), holder.strides_bytes}, slice.shape(), itemsize);
    return scratch;
  };
}

Fetch source_of(const Check& check, const Box& box) {
  return [&check, box](const Box& slice, std::byte* scratch) -> const std::byte* {
    throw_if_requested(check.options.cancel);
    check.options.read(moved(slice, box.begin), {scratch, static_cast<std::size_t>(check.bytes_of(slice))});
    return scratch;
  };
}

std::optional<Difference> first_difference(const Shape& shape, DType dtype, const Fetch& expected, const Fetch& found,
                                           Scratch& scratch) {
  const std::int64_t bits = dtype.elem_bits();
  for (const Box& slice : contiguous_slices(Box::whole(shape), dtype, Scratch::kBytes)) {
    const std::int64_t elems = slice.num_elems();
    const std::int64_t bytes = dtype.nbytes(elems);
    const std::byte* a = expected(slice, scratch.a());
    const std::byte* b = found(slice, scratch.b());
    if (std::memcmp(a, b, static_cast<std::size_t>(bytes)) == 0) continue;
    std::int64_t at = std::mismatch(a, a + bytes, b).first - a;
    // The bits after the last element of a packed type are padding: only elements count.
    for (std::int64_t elem = at * 8 / bits; elem < elems; ++elem) {
      const std::string a_bits = bits_text(a, elem * bits, bits);
      const std::string b_bits = bits_text(b, elem * bits, bits);
      if (a_bits != b_bits) return Difference{index_of(elem, slice), a_bits, b_bits};
    }
  }
  return std::nullopt;
}

bool all_zero(const Shape& shape, DType dtype, const Fetch& bytes, Scratch& scratch) {
  for (const Box& slice : contiguous_slices(Box::whole(shape), dtype, Scratch::kBytes)) {
    const std::byte* data = bytes(slice, scratch.b());
    const std::int64_t size = dtype.nbytes(slice.num_elems());
    if (std::any_of(data, data + size, [](std::byte b) { return b != std::byte{0}; })) return false;
  }
  return true;
}

void set_difference(Accusation& accusation, const Difference& difference, const Holder& holder, DType dtype) {
  Dims index = difference.index;
  std::int64_t bit = 0;
  const Dims strides = holder.held->data.layout().strides();
  for (int d = 0; d < index.size(); ++d) {
    bit += index[d] * strides[d] * dtype.elem_bits();
    index[d] += holder.shard.box.begin[d];
  }
  accusation.first_index = index;
  accusation.byte_offset = bit / 8;
  accusation.expected_bits = difference.expected_bits;
  accusation.found_bits = difference.found_bits;
}

}  // namespace loadstone::detail
