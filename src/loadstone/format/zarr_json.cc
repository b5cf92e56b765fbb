#include "loadstone/format/zarr_json.h"

#include <climits>
#include <span>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/faults.h"

namespace loadstone::zarr {

namespace {

constexpr std::int64_t kMaxMetadata = std::int64_t{64} << 20;  // consolidated: of all arrays of a store
constexpr int kMaxNesting = 64;
constexpr int kMaxDims = 64;

}  // namespace

Json parse_metadata(ByteSource& source) {
  const std::int64_t size = source.stamp().size_bytes;
  if (size > kMaxMetadata) throw data_error(cat("metadata of ", size, " bytes is above the limit of ", kMaxMetadata));
  std::string text(static_cast<std::size_t>(size), '\0');
  if (size > 0) source.read(0, std::as_writable_bytes(std::span(text)));
  // Refuses what nests deeper than metadata does, so that no parser's recursion is at a file's mercy.
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kMaxNesting;
    return !deep;
  };
  Json json = Json::parse(text, watch, false);
  if (deep || !json.is_object()) throw data_error("is not a JSON object, or one that is nested too deeply");
  return json;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string quoted(const Json& value) {
  return in_quotes(text_of(value));
}

const Json& member(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end()) throw data_error(cat("lacks '", key, "'"));
  return *it;
}

std::string string_member(const Json& json, const char* key) {
  const Json& value = member(json, key);
  if (!value.is_string()) throw data_error(cat("'", key, "' is no string"));
  return value.get<std::string>();
}

std::int64_t whole_number(const Json& value, const char* key, std::int64_t least, std::int64_t most) {
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || huge || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    throw data_error(cat("'", key, "' holds ", text_of(value), ": expected whole numbers from ", least,
                         most == INT64_MAX ? std::string() : cat(" to ", most)));
  }
  return value.get<std::int64_t>();
}

Shape dims_member(const Json& json, const char* key, std::int64_t least) {
  const Json& values = member(json, key);
  if (!values.is_array() || values.size() > kMaxDims) throw data_error(cat("'", key, "' is no list of dimensions"));
  Shape out;
  for (const Json& value : values) out.push_back(whole_number(value, key, least, INT64_MAX));
  return out;
}

const Json& configuration(const Json& json) {
  static const Json kNone = Json::object();
  const auto it = json.find("configuration");
  if (it == json.end()) return kNone;
  if (!it->is_object()) throw data_error("a 'configuration' is no object");
  return *it;
}

}  // namespace loadstone::zarr
