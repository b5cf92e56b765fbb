#include "loadstone/verify/manifest_json.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/verify/pd61_kernel.h"

namespace loadstone {

namespace {

using nlohmann::json;

constexpr int kMaxDepth = 5;  // {arrays: [{blocks: [[

std::string json_text(std::string_view text) {
  try {
    return json(std::string(text)).dump();
  } catch (const json::exception&) {
    throw data_error(cat("array name '", printable(text), "' is not UTF-8 and cannot be written to a manifest"));
  }
}

std::string pair_text(const Pd61Value& value) {
  const std::string text = to_string(value);
  return cat("[\"", text.substr(0, 16), "\", \"", text.substr(17), "\"]");
}

std::string array_text(const ManifestArray& array) {
  std::string out = cat("    {\n      \"name\": ", json_text(array.name),
                        ",\n      \"dtype\": ", json_text(to_string(array.dtype)), ",\n      \"shape\": [");
  for (int d = 0; d < array.shape.size(); ++d) out += cat(d > 0 ? ", " : "", array.shape[d]);
  out += cat("],\n      \"bytes\": ", array.bytes, ",\n      \"digest\": ", pair_text(array.digest),
             ",\n      \"rows_per_block\": ", array.rows_per_block, ",\n      \"blocks\": [");
  for (std::size_t b = 0; b < array.blocks.size(); ++b) {
    out += cat(b > 0 ? "," : "", "\n        ", pair_text(array.blocks[b]));
  }
  return out + (array.blocks.empty() ? "]\n    }" : "\n      ]\n    }");
}

/// Reads the parts of a manifest and says where something is wrong.
class Reader {
 public:
  explicit Reader(std::string_view path) : path_(path) {}

  [[noreturn]] void fail(std::string_view where, std::string_view what, std::string expected = "",
                         std::string found = "") const {
    std::string message = cat("'", printable(path_), "': ", where, where.empty() ? "" : ": ", what);
    if (!expected.empty()) message += cat(": expected ", expected, ", found ", found);
    throw data_error(message, {std::string(path_), std::move(expected), std::move(found), 0});
  }

  json parse(std::string_view text) const {
    std::vector<std::set<std::string>> keys;
    const json::parser_callback_t check = [&](int depth, json::parse_event_t event, json& value) {
      switch (event) {
        case json::parse_event_t::object_start: keys.emplace_back(); [[fallthrough]];
        case json::parse_event_t::array_start:
          if (depth > kMaxDepth) fail("", cat("not a manifest: nested more than ", kMaxDepth, " levels deep"));
          break;
        case json::parse_event_t::key: {
          const auto key = value.get<std::string>();
          if (!keys.back().insert(key).second) fail("", cat("the key '", printable(key), "' occurs twice"));
          break;
        }
        case json::parse_event_t::object_end: keys.pop_back(); break;
        default: break;
      }
      return true;
    };
    try {
      return json::parse(text.begin(), text.end(), check);
    } catch (const json::exception& error) {
      std::string_view what = error.what();
      if (const auto bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
      fail("", cat("not JSON: ", printable(what)));
    }
  }

  /// A member that must be there. `allowed` lists all keys of the object: others are refused.
  void only_keys(const json& object, std::string_view where, std::initializer_list<std::string_view> allowed) const {
    if (!object.is_object()) fail(where, "wrong type", "an object", object.type_name());
    for (const auto& [key, value] : object.items()) {
      if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
        fail(where, cat("unknown key '", printable(key), "'"));
      }
    }
    for (const std::string_view key : allowed) {
      if (!object.contains(key)) fail(where, cat("'", key, "' is missing"));
    }
  }

  std::string string(const json& value, std::string_view where) const {
    if (!value.is_string()) fail(where, "wrong type", "a string", value.type_name());
    return value.get<std::string>();
  }

  std::int64_t integer(const json& value, std::string_view where) const {
    if (!value.is_number_integer()) {
      fail(where, "wrong type", "an integer", value.is_number() ? "a number that is none" : value.type_name());
    }
    if (value.is_number_unsigned()) {
      const auto number = value.get<std::uint64_t>();
      if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return static_cast<std::int64_t>(number);
      }
    }
    fail(where, "out of range", "0 to 2^63-1", value.dump());
  }

  const json& list(const json& value, std::string_view where, std::size_t limit) const {
    if (!value.is_array()) fail(where, "wrong type", "a list", value.type_name());
    if (value.size() > limit) fail(where, "too long", cat("at most ", limit, " entries"), std::to_string(value.size()));
    return value;
  }

  Pd61Value digest(const json& value, std::string_view where) const {
    if (list(value, where, 2).size() != 2) fail(where, "wrong length", "2 lanes", std::to_string(value.size()));
    Pd61Value out;
    for (std::size_t lane = 0; lane < 2; ++lane) {
      const std::string text = string(value[lane], where);
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, out.lanes[lane], 16);
      const bool lower = std::none_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'F'; });
      if (text.size() != 16 || error != std::errc() || stop != end || !lower || out.lanes[lane] >= detail::kPd61Prime) {
        fail(where, "not a digest", "16 hex digits below 2^61-1", cat("'", printable(text.substr(0, 40)), "'"));
      }
    }
    return out;
  }

  DType dtype(const json& value, std::string_view where) const {
    const std::string text = string(value, where);
    if (const auto numbered = numbered_dtype(text)) return *numbered;
    try {
      const DiskType disk = parse_dtype(text);
      if (to_string(disk.dtype) == text) return disk.dtype;
    } catch (const Error&) {
      fail(where, cat("unknown dtype '", printable(text.substr(0, 60)), "'"));
    }
    fail(where, cat("dtype '", printable(text), "' is not spelled as a manifest spells it"));
  }

  ManifestArray array(const json& object, std::string_view where) const {
    only_keys(object, where, {"name", "dtype", "shape", "bytes", "digest", "rows_per_block", "blocks"});
    ManifestArray out;
    out.name = string(object["name"], cat(where, ".name"));
    out.dtype = dtype(object["dtype"], cat(where, ".dtype"));
    for (const json& extent : list(object["shape"], cat(where, ".shape"), 64)) {
      out.shape.push_back(integer(extent, cat(where, ".shape")));
    }
    out.bytes = integer(object["bytes"], cat(where, ".bytes"));
    out.digest = digest(object["digest"], cat(where, ".digest"));
    out.rows_per_block = integer(object["rows_per_block"], cat(where, ".rows_per_block"));
    const json& blocks = list(object["blocks"], cat(where, ".blocks"), detail::kMaxManifestBlocks);
    for (const json& block : blocks) out.blocks.push_back(digest(block, cat(where, ".blocks")));
    check(out, where);
    return out;
  }

 private:
  static std::optional<DType> numbered_dtype(const std::string& text) {
    int code = 0;
    int bits = 0;
    int lanes = 0;
    int used = 0;
    if (std::sscanf(text.c_str(), "dtype(%3d, %3d, %5d)%n", &code, &bits, &lanes, &used) != 3) return std::nullopt;
    if (code < 0 || code > 255 || bits < 1 || bits > 255 || lanes < 1 || lanes > 65535) return std::nullopt;
    const DType out{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits),
                    static_cast<std::uint16_t>(lanes)};
    return to_string(out) == text ? std::optional(out) : std::nullopt;
  }

  void check(const ManifestArray& array, std::string_view where) const {
    std::int64_t bytes = 0;
    try {
      bytes = array.dtype.nbytes(num_elems(array.shape));
    } catch (const Error& error) {
      fail(where, error.message());
    }
    if (bytes != array.bytes) {
      fail(cat(where, ".bytes"),
           cat("shape ", to_string(array.shape), " of ", to_string(array.dtype), " has another size"),
           std::to_string(bytes), std::to_string(array.bytes));
    }
    const bool cut = bytes > 0 && !array.shape.empty();
    if (cut != (array.rows_per_block > 0)) {
      fail(cat(where, ".rows_per_block"), cat("wrong for shape ", to_string(array.shape)), cut ? "at least 1" : "0",
           std::to_string(array.rows_per_block));
    }
    const std::int64_t blocks = cut ? ceil_div(array.shape[0], array.rows_per_block) : 0;
    if (blocks != static_cast<std::int64_t>(array.blocks.size())) {
      fail(cat(where, ".blocks"),
           cat("wrong number for ", cut ? array.shape[0] : 0, " rows in blocks of ", array.rows_per_block),
           std::to_string(blocks), std::to_string(array.blocks.size()));
    }
    Pd61Value sum;
    for (const Pd61Value& block : array.blocks) sum += block;
    if (cut && sum != array.digest) {
      fail(cat(where, ".digest"), "is not the sum of its blocks", to_string(sum), to_string(array.digest));
    }
  }

  std::string_view path_;
};

}  // namespace

std::string to_json(const Manifest& manifest) {
  std::string out = cat("{\n  \"schema\": ", Manifest::kSchema,
                        ",\n  \"kind\": \"loadstone-manifest\",\n  \"rule\": ", json_text(manifest.rule),
                        ",\n  \"key_id\": ", json_text(manifest.key_id), ",\n  \"arrays\": [");
  for (std::size_t a = 0; a < manifest.arrays.size(); ++a) {
    out += cat(a > 0 ? ",\n" : "\n", array_text(manifest.arrays[a]));
  }
  return out + (manifest.arrays.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

Manifest parse_manifest(std::string_view text, std::string_view path) {
  const Reader reader(path);
  if (text.size() > detail::kMaxManifestBytes) {
    reader.fail("", "too large for a manifest", cat("at most ", detail::kMaxManifestBytes, " bytes"), "more");
  }
  const json document = reader.parse(text);
  if (!document.is_object()) reader.fail("", "not a manifest", "an object", document.type_name());
  // Looked at first: of another schema nothing else can be said.
  if (!document.contains("schema")) reader.fail("", "not a manifest: 'schema' is missing");
  if (const std::int64_t schema = reader.integer(document["schema"], "schema"); schema != Manifest::kSchema) {
    reader.fail("", "another schema", std::to_string(Manifest::kSchema), std::to_string(schema));
  }
  reader.only_keys(document, "", {"schema", "kind", "rule", "key_id", "arrays"});
  Manifest out;
  const auto must_be = [&](const char* key, std::string_view expected) {
    const std::string found = reader.string(document[key], key);
    if (found != expected)
      reader.fail(key, "unknown", cat("'", expected, "'"), cat("'", printable(found.substr(0, 60)), "'"));
  };
  must_be("kind", "loadstone-manifest");
  must_be("rule", out.rule);
  must_be("key_id", out.key_id);
  std::set<std::string> names;
  const json& arrays = reader.list(document["arrays"], "arrays", detail::kMaxManifestBytes);
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    out.arrays.push_back(reader.array(arrays[a], cat("arrays[", a, "]")));
    const std::string& name = out.arrays.back().name;
    if (!names.insert(name).second)
      reader.fail(cat("arrays[", a, "]"), cat("the name '", printable(name), "' occurs twice"));
  }
  return out;
}

}  // namespace loadstone
