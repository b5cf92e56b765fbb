#include "loadstone/format/zarr_chains.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/zarr_json.h"

namespace loadstone::zarr {

namespace {

constexpr std::size_t kMaxSteps = 16;  // of a chain of codecs

constexpr std::string_view kKnownCodecs = "zlib, gzip, zstd, blosc, lz4, bz2, crc32c";

Step delta_step(const Json& settings) {
  Step out{Codec::delta};
  const std::string made = string_member(settings, "dtype");
  const bool same = !settings.contains("astype") || settings.at("astype").is_null();
  const std::string stored = same ? made : string_member(settings, "astype");
  const auto number = [](const std::string& text, int& item, bool& big) {
    const auto type = parse_typestr(text);
    const char kind = text.size() > 1 ? text[1] : '?';
    if (!type || (kind != 'i' && kind != 'u' && kind != 'f') || type->dtype.itemsize() > 8) {
      throw data_error(cat("a delta filter of ", in_quotes(text), " is not supported"));
    }
    item = static_cast<int>(type->dtype.itemsize());
    big = type->order == ByteOrder::big;
    return kind;
  };
  const char to = number(made, out.made_item, out.made_big), from = number(stored, out.item, out.big);
  out.is_float = to == 'f';
  out.is_signed = from == 'i';
  if ((to == 'f' || from == 'f') && (to != from || out.item != out.made_item || out.item == 2)) {
    throw data_error(cat("a delta filter from ", in_quotes(stored), " to ", in_quotes(made), " is not supported"));
  }
  return out;
}

/// A codec from bytes to bytes by the name that numcodecs has for it; nothing for others.
std::optional<Step> step_of(const std::string& name, const Json& settings) {
  static constexpr std::pair<std::string_view, Codec> kPlain[] = {{"zlib", Codec::zlib}, {"gzip", Codec::gzip},
                                                                  {"zstd", Codec::zstd}, {"blosc", Codec::blosc},
                                                                  {"lz4", Codec::lz4},   {"bz2", Codec::bz2}};
  for (const auto& [known, codec] : kPlain) {
    if (name == known) return Step{codec};
  }
  if (name == "delta") return delta_step(settings);
  if (name == "shuffle") {
    Step out{Codec::shuffle};
    out.item = settings.contains("elementsize")
                   ? static_cast<int>(whole_number(settings.at("elementsize"), "elementsize", 1, 1 << 20))
                   : 4;
    return out;
  }
  return std::nullopt;
}

void take_transpose(Chain& chain, const Json& codec) {
  const Shape order = dims_member(configuration(codec), "order", 0);
  std::vector<bool> seen(chain.dims.size());
  bool good = order.size() == static_cast<int>(chain.dims.size());
  std::vector<int> stored;
  for (int d = 0; good && d < order.size(); ++d) {
    const auto from = static_cast<std::size_t>(order[d]);
    good = from < seen.size() && !seen[from];
    if (!good) break;
    seen[from] = true;
    stored.push_back(chain.dims[from]);
  }
  if (!good) throw data_error("the order of a transpose codec is no permutation of the dimensions");
  chain.dims = std::move(stored);
}

bool is_big(const Json& codec, std::int64_t itemsize) {
  const Json& settings = configuration(codec);
  if (!settings.contains("endian") || settings.at("endian").is_null()) {
    if (itemsize > 1) throw data_error("the bytes codec lacks 'endian'");
    return false;
  }
  const std::string endian = string_member(settings, "endian");
  if (endian != "little" && endian != "big") throw data_error(cat("endian is ", in_quotes(endian)));
  return endian == "big";
}

/// A codec of a v3 list from bytes to bytes. zarr-python names those of numcodecs with its name in front.
Step step_v3(const std::string& name, const Json& codec) {
  constexpr std::string_view kNumcodecs = "numcodecs.";
  std::optional<Step> step;
  if (name == "crc32c") {
    step = Step{Codec::crc32c};
  } else if (name == "gzip" || name == "zstd" || name == "blosc") {
    step = step_of(name, configuration(codec));
  } else if (name.starts_with(kNumcodecs) && name != "numcodecs.delta") {
    step = step_of(name.substr(kNumcodecs.size()), configuration(codec));
  }
  if (step) return *step;
  throw data_error(cat("the codec ", in_quotes(name),
                       " is not supported here: expected transpose, then bytes or sharding_indexed, then gzip, zstd, "
                       "blosc or crc32c"));
}

const Json& list_of(const Json& json, const char* key) {
  const Json& codecs = member(json, key);
  if (!codecs.is_array() || codecs.size() > kMaxSteps) throw data_error(cat("'", key, "' is no list, or too long"));
  for (const Json& codec : codecs) {
    if (!codec.is_object()) throw data_error("a codec is no object");
  }
  return codecs;
}

Chain chain_v3(const Json& codecs, int ndim, DType dtype) {
  Chain out;
  out.dims = in_order(ndim, false);
  bool bytes = false;
  for (const Json& codec : codecs) {
    const std::string name = string_member(codec, "name");
    if (name == "transpose" && !bytes) {
      take_transpose(out, codec);
    } else if (name == "bytes" && !bytes) {
      bytes = true;
      out.big = is_big(codec, dtype.swap_bytes());
    } else if (bytes) {
      out.steps.push_back(step_v3(name, codec));
    } else {
      throw data_error(cat("the codec ", in_quotes(name), " is not supported before the bytes codec"));
    }
  }
  if (!bytes) throw data_error("'codecs' has no bytes codec");
  return out;
}

Sharding sharding_v3(const Json& settings, const Shape& shard, DType dtype) {
  Sharding out;
  out.chunk = dims_member(settings, "chunk_shape", 1);
  bool divides = out.chunk.size() == shard.size();
  for (int d = 0; divides && d < shard.size(); ++d) divides = shard[d] % out.chunk[d] == 0;
  if (!divides) {
    throw data_error(cat("inner chunks of ", to_string(out.chunk), " do not divide shards of ", to_string(shard)));
  }
  const Json& codecs = list_of(settings, "codecs");
  for (const Json& codec : codecs) {
    if (codec.value("name", Json()) == "sharding_indexed") throw data_error("shards in shards are not supported");
  }
  out.chain = chain_v3(codecs, shard.size(), dtype);
  const Chain index = chain_v3(list_of(settings, "index_codecs"), 1, dtypes::kInt64);
  const bool checked = index.steps.size() == 1 && index.steps[0].codec == Codec::crc32c;
  if (!checked && !index.steps.empty()) {
    throw data_error("index_codecs other than bytes and crc32c are not supported: an index must have a fixed size");
  }
  out.index_checked = checked;
  out.index_big = index.big;
  const std::string where = settings.contains("index_location") ? string_member(settings, "index_location") : "end";
  if (where != "start" && where != "end") throw data_error(cat("index_location is ", in_quotes(where)));
  out.index_at_start = where == "start";
  return out;
}

}  // namespace

std::vector<int> in_order(int ndim, bool fortran) {
  std::vector<int> out;
  for (int d = 0; d < ndim; ++d) out.push_back(fortran ? ndim - 1 - d : d);
  return out;
}

void take_steps_v2(Metadata& out, const Json& json) {
  if (const auto filters = json.find("filters"); filters != json.end() && !filters->is_null()) {
    if (!filters->is_array() || filters->size() > kMaxSteps) throw data_error("'filters' is no list, or too long");
    for (const Json& filter : *filters) {
      if (!filter.is_object()) throw data_error("a filter is no object");
      const std::string name = string_member(filter, "id");
      const auto step = step_of(name, filter);
      if (!step) throw data_error(cat("the filter ", in_quotes(name), " is not supported: expected shuffle or delta"));
      out.chain.steps.push_back(*step);
    }
  }
  const Json& compressor = member(json, "compressor");
  if (compressor.is_null()) return;
  if (!compressor.is_object()) throw data_error("'compressor' is no object");
  const std::string name = string_member(compressor, "id");
  const auto step = step_of(name, compressor);
  if (!step) throw data_error(cat("the codec ", in_quotes(name), " is not supported: expected ", kKnownCodecs));
  out.chain.steps.push_back(*step);
}

void take_codecs_v3(Metadata& out, const Json& json) {
  const Json& codecs = list_of(json, "codecs");
  const auto shards = std::find_if(codecs.begin(), codecs.end(),
                                   [](const Json& codec) { return codec.value("name", Json()) == "sharding_indexed"; });
  if (shards == codecs.end()) {
    out.chain = chain_v3(codecs, out.shape.size(), out.type.dtype);
    return;
  }
  if (codecs.size() != 1) throw data_error("codecs before or after sharding_indexed are not supported");
  out.sharding = sharding_v3(configuration(*shards), out.chunk, out.type.dtype);
}

}  // namespace loadstone::zarr
