#include "loadstone/format/zarr_metadata.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "loadstone/array/parse_element.h"
#include "loadstone/base/cat.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/lost_types.h"
#include "loadstone/format/zarr_chains.h"
#include "loadstone/format/zarr_json.h"

namespace loadstone::zarr {

namespace {

// Fill values.

void append_number(const Json& value, DType dtype, std::vector<std::byte>& out) {
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_string()) {
    if (text == "NaN")
      text = "nan";
    else if (text == "Infinity")
      text = "inf";
    else if (text == "-Infinity")
      text = "-inf";
    else if (text.starts_with("0x") && text.size() == 2 + 2 * static_cast<std::size_t>(dtype.itemsize()) &&
             text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos) {
      for (std::size_t i = text.size(); i > 2; i -= 2)  // the bits, most significant first
        out.push_back(static_cast<std::byte>(std::stoul(text.substr(i - 2, 2), nullptr, 16)));
      return;
    }
  } else if (!value.is_number() && !value.is_boolean()) {
    throw data_error(cat("the fill value ", quoted(value), " is no number"));
  }
  try {
    const std::vector<std::byte> element = parse_element(text, dtype);
    out.insert(out.end(), element.begin(), element.end());
  } catch (const Error& error) {
    throw data_error(cat("the fill value ", quoted(value), " is no ", to_string(dtype)));
  }
}

std::vector<std::byte> fill_of(const Json& value, DType dtype) {
  std::vector<std::byte> out;
  if (value.is_null()) return out;
  const bool complex = dtype == dtypes::kComplex64 || dtype == dtypes::kComplex128;
  if (!complex || !value.is_array()) {
    append_number(value, dtype, out);
    return out;
  }
  if (value.size() != 2) throw data_error("the fill value of a complex number is not two numbers");
  for (const Json& part : value) {
    append_number(part, dtype == dtypes::kComplex64 ? dtypes::kFloat32 : dtypes::kFloat64, out);
  }
  return out;
}

/// Of an array whose type --dtype names: times as ticks; of other bytes only --fill can say what they mean.
std::vector<std::byte> fill_of_named(const Json& value, DType dtype) {
  if (value == "NaT" && dtype == dtypes::kInt64) return parse_element("-9223372036854775808", dtype);
  return value.is_number() ? fill_of(value, dtype) : std::vector<std::byte>();
}

/// The type that --dtype names for elements of `itemsize` bytes whose type is lost or a time.
DiskType named_type(const ReadHints& hints, std::int64_t itemsize, const std::string& shown, ByteOrder order,
                    std::string& note) {
  const DType dtype = hints.dtype->dtype;
  if (!dtype.whole_bytes() || dtype.itemsize() != itemsize) {
    throw usage_error(
        cat("--dtype names ", to_string(dtype), ", whose element does not have the ", itemsize, " bytes of ", shown));
  }
  note = cat("the dtype ", shown, " is read as ", to_string(dtype));
  return {dtype, dtype.swap_bytes() > 1 ? order : ByteOrder::little};
}

void refuse_cast(const ReadHints& hints, DType found) {
  if (!hints.dtype || hints.dtype->dtype == found) return;
  throw usage_error(cat("--dtype names ", to_string(hints.dtype->dtype), ", but the array holds ", to_string(found),
                        "; loading does not cast"));
}

DiskType type_v3(const Json& type, const ReadHints& hints, std::string& note) {
  static constexpr std::string_view kTypes[] = {
      "bool",        "int8",          "int16",           "int32",           "int64",         "uint8",
      "uint16",      "uint32",        "uint64",          "float16",         "float32",       "float64",
      "complex64",   "complex128",    "bfloat16",        "float8_e3m4",     "float8_e4m3",   "float8_e4m3b11fnuz",
      "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"};
  if (type.is_string()) {
    const std::string name = type.get<std::string>();
    if (std::find(std::begin(kTypes), std::end(kTypes), name) != std::end(kTypes)) {
      const DiskType out = parse_dtype(name);
      refuse_cast(hints, out.dtype);
      return out;
    }
    std::int64_t bits = 0;  // "r16": as many bits without a meaning
    if (name.starts_with('r') && name.size() < 6 &&
        std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      for (const char c : name.substr(1)) bits = bits * 10 + (c - '0');
    }
    if (bits > 0 && bits % 8 == 0) {
      if (hints.dtype) return named_type(hints, bits / 8, in_quotes(name), ByteOrder::little, note);
      throw data_error(cat("the data type ", in_quotes(name), " has no meaning: name it with --dtype"));
    }
  } else if (type.is_object() && type.contains("name")) {
    const std::string name = text_of(type.at("name"));
    if (name == "numpy.datetime64" || name == "numpy.timedelta64") {
      if (hints.dtype) return named_type(hints, 8, in_quotes(name), ByteOrder::little, note);
      throw data_error(
          cat("the data type ", in_quotes(name), " has no device type; its ticks load with --dtype int64"));
    }
  }
  throw data_error(cat("the data type ", quoted(type), " cannot be loaded"));
}

}  // namespace

Metadata read_v2(const Json& json, const ReadHints& hints) {
  Metadata out;
  if (const Json& version = member(json, "zarr_format"); version != 2) {
    throw data_error(cat("zarr_format is ", quoted(version), ": expected 2"));
  }
  const Json& dtype = member(json, "dtype");
  if (!dtype.is_string()) throw data_error("the dtype has fields: expected one number an element");
  const std::string typestr = dtype.get<std::string>();
  const Json& fill = member(json, "fill_value");
  if (const auto type = parse_typestr(typestr)) {
    refuse_cast(hints, type->dtype);
    out.type = *type;
    out.fill = fill_of(fill, type->dtype);
  } else if (const std::int64_t itemsize = nameable_itemsize(typestr); itemsize > 0 && hints.dtype) {
    const bool big = typestr.starts_with('>') || hints.dtype->order == ByteOrder::big;
    out.type = named_type(hints, itemsize, in_quotes(typestr), big ? ByteOrder::big : ByteOrder::little, out.note);
    out.fill = fill_of_named(fill, out.type.dtype);
  } else {
    const std::string why = explain_typestr(typestr);
    throw data_error(cat("dtype ", in_quotes(typestr), ": ", why.empty() ? "it is no type that can be placed" : why));
  }
  out.shape = dims_member(json, "shape", 0);
  out.chunk = dims_member(json, "chunks", 1);
  const std::string order = string_member(json, "order");
  if (order != "C" && order != "F") throw data_error(cat("order is ", in_quotes(order), ": expected C or F"));
  out.chain.dims = in_order(out.shape.size(), order == "F");
  out.chain.big = out.type.order == ByteOrder::big;
  take_steps_v2(out, json);
  out.separator = json.contains("dimension_separator") ? string_member(json, "dimension_separator") : ".";
  out.zero_key = true;
  return out;
}

Metadata read_v3(const Json& json, const ReadHints& hints) {
  Metadata out;
  for (const auto& [key, value] : json.items()) {
    static constexpr std::string_view kKnown[] = {
        "zarr_format", "node_type", "shape",      "data_type",       "chunk_grid",          "chunk_key_encoding",
        "fill_value",  "codecs",    "attributes", "dimension_names", "storage_transformers"};
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown)) continue;
    if (value.is_object() && value.contains("must_understand") && value.at("must_understand") == false) continue;
    throw data_error(cat("has the unknown member ", in_quotes(key)));
  }
  if (const auto it = json.find("storage_transformers"); it != json.end() && !it->empty()) {
    throw data_error("has storage_transformers, which are not supported");
  }
  out.type = type_v3(member(json, "data_type"), hints, out.note);
  out.shape = dims_member(json, "shape", 0);
  const Json& grid = member(json, "chunk_grid");
  if (!grid.is_object() || string_member(grid, "name") != "regular")
    throw data_error("the chunk grid is not 'regular'");
  out.chunk = dims_member(configuration(grid), "chunk_shape", 1);
  if (out.chunk.size() != out.shape.size()) throw data_error("chunks and shape differ in their dimensions");
  const Json& keys = member(json, "chunk_key_encoding");
  if (!keys.is_object()) throw data_error("'chunk_key_encoding' is no object");
  const std::string name = string_member(keys, "name");
  if (name != "default" && name != "v2")
    throw data_error(cat("the chunk key encoding ", in_quotes(name), " is unknown"));
  const bool own = configuration(keys).contains("separator");
  out.separator = own ? string_member(configuration(keys), "separator") : name == "v2" ? "." : "/";
  if (name != "v2") out.prefix.push_back('c');
  out.zero_key = name == "v2";
  take_codecs_v3(out, json);
  const Json& fill = member(json, "fill_value");
  out.fill = out.note.empty() ? fill_of(fill, out.type.dtype) : fill_of_named(fill, out.type.dtype);
  if (out.fill.empty() && out.note.empty()) throw data_error("the fill value is null");
  return out;
}

}  // namespace loadstone::zarr
