#include "loadstone/format/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"

namespace loadstone {

namespace {

using Json = nlohmann::json;

constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{"BOOL", "bool"},
                                                                    {"U8", "uint8"},
                                                                    {"I8", "int8"},
                                                                    {"U16", "uint16"},
                                                                    {"I16", "int16"},
                                                                    {"U32", "uint32"},
                                                                    {"I32", "int32"},
                                                                    {"U64", "uint64"},
                                                                    {"I64", "int64"},
                                                                    {"F16", "float16"},
                                                                    {"BF16", "bfloat16"},
                                                                    {"F32", "float32"},
                                                                    {"F64", "float64"},
                                                                    {"C64", "complex64"},
                                                                    {"F8_E4M3", "float8_e4m3fn"},
                                                                    {"F8_E5M2", "float8_e5m2"},
                                                                    {"F8_E4M3FNUZ", "float8_e4m3fnuz"},
                                                                    {"F8_E5M2FNUZ", "float8_e5m2fnuz"},
                                                                    {"F8_E8M0", "float8_e8m0fnu"},
                                                                    {"F6_E2M3", "float6_e2m3fn"},
                                                                    {"F6_E3M2", "float6_e3m2fn"},
                                                                    {"F4", "float4_e2m1fn"}};

/// Takes the header apart while it is parsed, so that nothing is kept but what the format allows, repeated keys are
/// seen, and numbers are what they were in the text.
class Handler : public nlohmann::json_sax<Json> {
 public:
  std::vector<SafeTensor> tensors;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t value) override { return number(cat(value), std::nullopt); }
  bool number_unsigned(number_unsigned_t value) override { return number(cat(value), value); }
  bool number_float(number_float_t, const string_t& text) override { return number(text, std::nullopt); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool string(string_t& value) override {
    if (level_ == Level::metadata) return true;
    if (level_ != Level::tensor || field_ != "dtype") return unexpected("text");
    const auto found =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return t.first == value; });
    if (found == std::end(kTypes))
      throw data_error(cat("tensor ", in_quotes(name_), " has unknown dtype ", in_quotes(value)));
    tensors.back().dtype = parse_dtype(found->second).dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    if (level_ == Level::start) {
      level_ = Level::top;
    } else if (level_ == Level::top && name_ == "__metadata__") {
      level_ = Level::metadata;
    } else if (level_ == Level::top) {
      level_ = Level::tensor;
      tensors.emplace_back().name = name_;
      keys_.clear();
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (level_ == Level::top) {
      if (!names_.insert(value).second) throw data_error(cat("duplicate key ", in_quotes(value)));
      name_ = value;
    } else if (level_ == Level::metadata) {
      if (!metadata_.insert(value).second)
        throw data_error(cat("duplicate key ", in_quotes(value), " in __metadata__"));
    } else {
      if (value != "dtype" && value != "shape" && value != "data_offsets") {
        throw data_error(cat("tensor ", in_quotes(name_), " has unknown field ", in_quotes(value)));
      }
      if (!keys_.insert(value).second) {
        throw data_error(cat("duplicate key ", in_quotes(value), " of tensor ", in_quotes(name_)));
      }
      field_ = value;
    }
    return true;
  }

  bool end_object() override {
    if (level_ == Level::tensor && keys_.size() != 3) {
      throw data_error(cat("tensor ", in_quotes(name_), " lacks dtype, shape or data_offsets"));
    }
    level_ = level_ == Level::top ? Level::end : Level::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ != Level::tensor || (field_ != "shape" && field_ != "data_offsets")) return unexpected("a list");
    level_ = Level::numbers;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    level_ = Level::tensor;
    SafeTensor& tensor = tensors.back();
    if (field_ == "shape") {
      if (numbers_.size() > kMaxDims) {
        throw data_error(cat("tensor ", in_quotes(name_), " has ", numbers_.size(), " dimensions: at most ", kMaxDims));
      }
      for (const std::int64_t extent : numbers_) tensor.shape.push_back(extent);
      return true;
    }
    if (numbers_.size() != 2) {
      throw data_error(
          cat("data_offsets of tensor ", in_quotes(name_), " has ", numbers_.size(), " numbers: expected 2"));
    }
    tensor.begin = numbers_[0];
    tensor.end = numbers_[1];
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    throw data_error(cat("the header is no valid JSON near byte ", position, ": ", printable(error.what())));
  }

 private:
  static constexpr std::size_t kMaxDims = 64;
  enum class Level : std::uint8_t { start, top, metadata, tensor, numbers, end } level_ = Level::start;

  bool unexpected(std::string_view what) const {
    throw data_error(level_ == Level::start ? cat("the header is ", what, ": expected an object of tensors")
                                            : cat("the header has ", what, " where the format has none",
                                                  name_.empty() ? std::string{} : cat(", at ", in_quotes(name_))));
  }

  bool number(const std::string& text, std::optional<std::uint64_t> value) {
    if (level_ != Level::numbers) return unexpected("a number");
    if (!value || *value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw data_error(cat(field_, " of tensor ", in_quotes(name_), " holds ", printable(text),
                           ": expected an integer from 0 to 2^63-1"));
    }
    numbers_.push_back(static_cast<std::int64_t>(*value));
    return true;
  }

  std::string name_, field_;
  std::set<std::string> names_, metadata_, keys_;
  std::vector<std::int64_t> numbers_;
};

/// Bytes of the elements; whole bytes only.
std::int64_t bytes_of(const SafeTensor& tensor) {
  std::optional<std::int64_t> bits = tensor.dtype.elem_bits();
  std::optional<std::int64_t> safe = bits;  // extents of 0 count as 1: no later product overflows
  for (const std::int64_t extent : tensor.shape) {
    bits = bits ? checked_mul(*bits, extent) : bits;
    safe = safe ? checked_mul(*safe, std::max<std::int64_t>(extent, 1)) : safe;
  }
  if (!bits || !safe) {
    throw data_error(cat("shape ", to_string(tensor.shape), " of tensor ", in_quotes(tensor.name),
                         " is too large: more than 2^63-1 bits"));
  }
  if (*bits % 8 != 0) {
    throw data_error(cat("tensor ", in_quotes(tensor.name), " of ", to_string(tensor.dtype), " ",
                         to_string(tensor.shape), " fills no whole bytes"));
  }
  return *bits / 8;
}

}  // namespace

std::vector<SafeTensor> parse_safetensors_header(std::string_view json, std::int64_t payload_bytes) {
  Handler handler;
  Json::sax_parse(json.begin(), json.end(), &handler);
  std::vector<SafeTensor> out = std::move(handler.tensors);
  for (const SafeTensor& tensor : out) {
    if (tensor.end < tensor.begin) {
      throw data_error(cat("data_offsets of tensor ", in_quotes(tensor.name), " end before they begin: [", tensor.begin,
                           ", ", tensor.end, "]"));
    }
    const std::int64_t bytes = bytes_of(tensor);
    if (tensor.end - tensor.begin != bytes) {
      throw data_error(cat("tensor ", in_quotes(tensor.name), " has ", tensor.end - tensor.begin, " bytes: expected ",
                           bytes, " for its shape ", to_string(tensor.shape), " of ", to_string(tensor.dtype)),
                       {{}, cat(bytes, " bytes"), cat(tensor.end - tensor.begin, " bytes"), 0});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t at = 0;
  for (const SafeTensor& tensor : out) {
    if (tensor.begin != at) {
      throw data_error(cat(tensor.begin > at ? "a hole of bytes that no tensor covers" : "tensors overlap", " before ",
                           in_quotes(tensor.name), ": it begins at ", tensor.begin, ", expected ", at));
    }
    at = tensor.end;
  }
  if (at != payload_bytes) {
    throw data_error(cat(at > payload_bytes ? "truncated" : "trailing bytes that no tensor covers",
                         ": the tensors end at ", at, ", but ", payload_bytes, " bytes follow the header"),
                     {{}, cat(at, " bytes"), cat(payload_bytes, " bytes"), 0});
  }
  return out;
}

std::string_view safetensors_type(DType dtype) {
  for (const auto& [word, name] : kTypes) {
    if (parse_dtype(name).dtype == dtype) return word;
  }
  return {};
}

}  // namespace loadstone
