#include "loadstone/array/dtype.h"

#include <algorithm>
#include <array>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

struct Named {
  std::string_view name;
  DType dtype;
  std::string_view code;  // NumPy's kind and size, "" where NumPy has none
};

constexpr std::array<Named, 33> kNamed{{
    {"bool", {6, 8, 1}, "b1"},
    {"int8", {0, 8, 1}, "i1"},
    {"int16", {0, 16, 1}, "i2"},
    {"int32", {0, 32, 1}, "i4"},
    {"int64", {0, 64, 1}, "i8"},
    {"uint8", {1, 8, 1}, "u1"},
    {"uint16", {1, 16, 1}, "u2"},
    {"uint32", {1, 32, 1}, "u4"},
    {"uint64", {1, 64, 1}, "u8"},
    {"float16", {2, 16, 1}, "f2"},
    {"float32", {2, 32, 1}, "f4"},
    {"float64", {2, 64, 1}, "f8"},
    {"bfloat16", {4, 16, 1}, ""},
    {"complex32", {5, 32, 1}, ""},
    {"complex64", {5, 64, 1}, "c8"},
    {"complex128", {5, 128, 1}, "c16"},
    {"float8_e3m4", {7, 8, 1}, ""},
    {"float8_e4m3", {8, 8, 1}, ""},
    {"float8_e4m3b11fnuz", {9, 8, 1}, ""},
    {"float8_e4m3fn", {10, 8, 1}, ""},
    {"float8_e4m3fnuz", {11, 8, 1}, ""},
    {"float8_e5m2", {12, 8, 1}, ""},
    {"float8_e5m2fnuz", {13, 8, 1}, ""},
    {"float8_e8m0fnu", {14, 8, 1}, ""},
    {"float6_e2m3fn", {15, 6, 1}, ""},
    {"float6_e3m2fn", {16, 6, 1}, ""},
    {"float4_e2m1fn", {17, 4, 1}, ""},
    {"int2", {0, 2, 1}, ""},
    {"int4", {0, 4, 1}, ""},
    {"uint2", {1, 2, 1}, ""},
    {"uint4", {1, 4, 1}, ""},
    // Other spellings in use; the names above are the ones printed.
    {"bf16", {4, 16, 1}, ""},
    {"float", {2, 64, 1}, ""},
}};
constexpr std::size_t kFirstAlias = 31;

const Named* find_code(std::string_view code) {
  if (code.empty()) return nullptr;
  const auto* it = std::find_if(kNamed.begin(), kNamed.end(), [&](const Named& n) { return n.code == code; });
  return it == kNamed.end() ? nullptr : it;
}

}  // namespace

std::int64_t DType::nbytes(std::int64_t count) const {
  const std::int64_t bits_each = elem_bits();
  if (bits_each % 8 == 0) {
    if (const auto bytes = checked_mul(count, bits_each / 8)) return *bytes;
  } else if (const auto total = checked_mul(count, bits_each)) {
    return ceil_div(*total, 8);
  }
  throw data_error(cat(count, " elements of ", to_string(*this), " have more than 2^63-1 bytes"));
}

std::int64_t DType::swap_bytes() const {
  const std::int64_t lane = bits / 8;
  return code == dtypes::kComplex64.code ? lane / 2 : lane;
}

std::string to_string(DType dtype) {
  for (const Named& named : kNamed) {
    if (named.dtype == dtype) return std::string(named.name);
  }
  return cat("dtype(", dtype.code, ", ", dtype.bits, ", ", dtype.lanes, ")");
}

std::optional<DiskType> parse_typestr(std::string_view typestr) {
  if (typestr.size() < 2) return std::nullopt;
  const char order = typestr.front();
  if (order != '<' && order != '>' && order != '|' && order != '=') return std::nullopt;
  const Named* named = find_code(typestr.substr(1));
  if (named == nullptr) return std::nullopt;
  const bool one_byte = named->dtype.itemsize() == 1;
  if (order == '|' && !one_byte) return std::nullopt;  // "not applicable" makes no sense for a wider element
  return DiskType{named->dtype, order == '>' && !one_byte ? ByteOrder::big : ByteOrder::little};
}

DiskType parse_dtype(std::string_view text) {
  for (const Named& named : kNamed) {
    if (named.name == text) return {named.dtype, ByteOrder::little};
  }
  if (text == "?") return {dtypes::kBool, ByteOrder::little};
  if (const auto disk = parse_typestr(text)) return *disk;
  if (const Named* named = find_code(text)) return {named->dtype, ByteOrder::little};
  std::string_view body = text;
  ByteOrder order = ByteOrder::little;
  if (body.starts_with('<') || body.starts_with('>') || body.starts_with('=') || body.starts_with('|')) {
    order = body.front() == '>' ? ByteOrder::big : ByteOrder::little;
    body.remove_prefix(1);
    for (const Named& named : kNamed) {
      if (named.name == body && named.dtype.whole_bytes()) {
        return {named.dtype, named.dtype.itemsize() > 1 ? order : ByteOrder::little};
      }
    }
  }
  if (body == "f16" || body == "float128" || body == "longdouble" || body == "g") {
    throw usage_error(cat("dtype '", text,
                          "' is a 16-byte float (NumPy counts bytes) and cannot be placed; "
                          "half precision is 'float16' or 'f2'"));
  }
  if (const std::string why = explain_typestr(cat("<", body)); !why.empty()) {
    throw usage_error(cat("dtype '", text, "': ", why));
  }
  std::vector<std::string> known;
  for (std::size_t i = 0; i < kFirstAlias; ++i) known.emplace_back(kNamed[i].name);
  const std::string near = nearest(text, known);
  throw usage_error(cat("unknown dtype '", text, "'", near.empty() ? "" : cat(", did you mean '", near, "'"),
                        "; known: ", join(known, ", ")));
}

std::string explain_typestr(std::string_view typestr) {
  std::string_view code = typestr;
  if (!code.empty() && std::string_view("<>|=").find(code.front()) != std::string_view::npos) code.remove_prefix(1);
  if (code.empty()) return {};
  const char kind = code.front();
  if (code.starts_with("M8") || code.starts_with("datetime64")) {
    return "datetime64 has no device type; its ticks load with --dtype int64";
  }
  if (code.starts_with("m8") || code.starts_with("timedelta64")) {
    return "timedelta64 has no device type; its ticks load with --dtype int64";
  }
  if (kind == 'O') return "object arrays are pickles and are never loaded";
  if (kind == 'S' || kind == 'U' || kind == 'a') return "text cannot be placed on a device";
  if (kind == 'V' || code == "f1") {
    return cat("the dtype was lost when the file was written; name it: --dtype ", code == "V2" ? "bfloat16"
                                                                                  : code == "V1" || code == "f1"
                                                                                      ? "float8_e4m3fn or float8_e5m2"
                                                                                      : "NAME");
  }
  if (code == "f16" || code == "f12" || code == "c32" || code == "c24") {
    return "longdouble depends on the machine and has no device type";
  }
  return {};
}

std::string numpy_typestr(DType dtype) {
  for (const Named& named : kNamed) {
    if (named.dtype == dtype && !named.code.empty()) return cat(dtype.itemsize() == 1 ? "|" : "<", named.code);
  }
  return {};
}

}  // namespace loadstone
