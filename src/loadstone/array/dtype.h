#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace loadstone {

/// The type of an element as DLPack says it: (code, bits, lanes). Names and NumPy type strings are projections of it.
/// Layout-equal to DLDataType. Source: dlpack.h 1.3.
struct DType {
  std::uint8_t code = 0;
  std::uint8_t bits = 8;
  std::uint16_t lanes = 1;

  friend bool operator==(const DType&, const DType&) = default;

  /// Bits of one element, all lanes.
  int elem_bits() const { return bits * lanes; }
  /// True if an element is a whole number of bytes.
  bool whole_bytes() const { return elem_bits() % 8 == 0; }
  /// Bytes of one element. Only for whole_bytes().
  std::int64_t itemsize() const { return elem_bits() / 8; }
  /// Bytes of `count` packed elements, rounded up once (sub-byte types). Error{data} above 2^63-1.
  std::int64_t nbytes(std::int64_t count) const;
  /// Bytes that are reversed together when the byte order changes: one part of a complex number, else one lane.
  std::int64_t swap_bytes() const;
};

/// The byte order of elements in a file.
enum class ByteOrder : std::uint8_t { little, big };

/// "float32", "bfloat16", "float8_e4m3fn", …; "dtype(code, bits, lanes)" when it has no name.
std::string to_string(DType dtype);

/// A type as a file states it.
struct DiskType {
  DType dtype;
  ByteOrder order = ByteOrder::little;
  friend bool operator==(const DiskType&, const DiskType&) = default;
};

/// Reads a name or NumPy code as a user writes it: "float32", "f4", "<f4", ">i2", "bfloat16", "bool", "?" (f8 is
/// float64). Error{usage} that names the nearest known one; "f16" is refused with a hint at float16.
DiskType parse_dtype(std::string_view text);

/// Reads a NumPy array-interface type string ("<f4", "|b1", ">c16"); nullopt if it is none that can be placed.
std::optional<DiskType> parse_typestr(std::string_view typestr);
/// Why this type string cannot be placed, with the cure when there is one: "datetime64 … load ticks with --dtype
/// int64".
std::string explain_typestr(std::string_view typestr);
/// Little-endian NumPy type string, as in the .npy descr: "<f4", "|b1", "|u1"; "" for types NumPy cannot express.
std::string numpy_typestr(DType dtype);

namespace dtypes {
inline constexpr DType kBool{6, 8, 1};
inline constexpr DType kInt8{0, 8, 1}, kInt16{0, 16, 1}, kInt32{0, 32, 1}, kInt64{0, 64, 1};
inline constexpr DType kUInt8{1, 8, 1}, kUInt16{1, 16, 1}, kUInt32{1, 32, 1}, kUInt64{1, 64, 1};
inline constexpr DType kFloat16{2, 16, 1}, kFloat32{2, 32, 1}, kFloat64{2, 64, 1}, kBFloat16{4, 16, 1};
inline constexpr DType kComplex64{5, 64, 1}, kComplex128{5, 128, 1};
inline constexpr DType kFloat8E4M3FN{10, 8, 1}, kFloat8E5M2{12, 8, 1};
}  // namespace dtypes

}  // namespace loadstone
