// Zarr stores in folders, versions 2 and 3. A chunk is a file; which are there is asked of the file system once, in
// discovery, chunk by chunk. Codecs: zlib, gzip, zstd, lz4; any other is an error that names it.

#include <lz4.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/array/parse_element.h"
#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxMetadata = std::int64_t{16} << 20;
constexpr std::int64_t kMaxChunks = std::int64_t{1} << 24;  // 20 bytes each in a catalog
constexpr int kMaxDims = 64;
constexpr int kMaxDepth = 32;  // of groups

bool exists(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw errno_error(errno, path, "cannot look at");
  return false;
}

bool recognise(std::span<const std::byte>) {
  return false;  // a store is a folder
}

bool recognise_store(const std::string& folder) {
  return exists(join_path(folder, "zarr.json")) || exists(join_path(folder, ".zarray")) ||
         exists(join_path(folder, ".zgroup"));
}

/// Refuses what nests deeper than metadata does, so that no parser's recursion is at a file's mercy.
Json parse_metadata(ByteSource& source) {
  const std::int64_t size = source.stamp().size_bytes;
  if (size > kMaxMetadata) throw data_error(cat("metadata of ", size, " bytes is above the limit of ", kMaxMetadata));
  std::string text(static_cast<std::size_t>(size), '\0');
  if (size > 0) source.read(0, std::as_writable_bytes(std::span(text)));
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > 64;
    return !deep;
  };
  Json json = Json::parse(text, watch, false);
  if (deep || !json.is_object()) throw data_error("is not a JSON object, or one that is nested too deeply");
  return json;
}

const Json& member(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end()) throw data_error(cat("lacks '", key, "'"));
  return *it;
}

std::string text_of(const Json& json, const char* key) {
  const Json& value = member(json, key);
  if (!value.is_string()) throw data_error(cat("'", key, "' is no string"));
  return value.get<std::string>();
}

Shape dims_of(const Json& json, const char* key, std::int64_t least) {
  const Json& values = member(json, key);
  if (!values.is_array() || values.size() > kMaxDims) throw data_error(cat("'", key, "' is no list of dimensions"));
  Shape out;
  out.resize(static_cast<int>(values.size()));
  for (int d = 0; d < out.size(); ++d) {
    const Json& value = values[static_cast<std::size_t>(d)];
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) ||
        value.get<std::int64_t>() < least) {
      throw data_error(cat("'", key, "' holds ", value.dump(-1, ' ', true, Json::error_handler_t::replace),
                           ": expected whole numbers from ", least));
    }
    out[d] = value.get<std::int64_t>();
  }
  return out;
}

std::string quoted(const Json& value) {
  return in_quotes(value.is_string() ? value.get<std::string>()
                                     : value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

/// What the metadata of one array says.
struct Metadata {
  DiskType type;
  Shape shape, chunk;
  std::vector<int> stored_dims;  ///< dimension of the array that each stored dimension is, slowest first
  std::string codec;             ///< "", zlib, gzip, zstd, lz4
  std::string prefix, separator;
  std::vector<std::byte> fill;
  bool zero_key = false;  ///< 0 dimensions: the key is "0" (v2)
};

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

std::vector<int> in_order(int ndim, bool fortran) {
  std::vector<int> out;
  for (int d = 0; d < ndim; ++d) out.push_back(fortran ? ndim - 1 - d : d);
  return out;
}

void take_codec(Metadata& out, const std::string& name) {
  if (name != "zlib" && name != "gzip" && name != "zstd" && name != "lz4") {
    throw data_error(cat("the codec ", in_quotes(name), " is not supported: expected zlib, gzip, zstd or lz4"));
  }
  out.codec = name;
}

Metadata read_v2(const Json& json) {
  Metadata out;
  if (const Json& version = member(json, "zarr_format"); version != 2) {
    throw data_error(cat("zarr_format is ", quoted(version), ": expected 2"));
  }
  const Json& dtype = member(json, "dtype");
  if (!dtype.is_string()) throw data_error("the dtype has fields: expected one number an element");
  const auto type = parse_typestr(dtype.get<std::string>());
  if (!type) throw data_error(explain_typestr(dtype.get<std::string>()));
  out.type = *type;
  out.shape = dims_of(json, "shape", 0);
  out.chunk = dims_of(json, "chunks", 1);
  const std::string order = text_of(json, "order");
  if (order != "C" && order != "F") throw data_error(cat("order is ", in_quotes(order), ": expected C or F"));
  out.stored_dims = in_order(out.shape.size(), order == "F");
  if (const Json& compressor = member(json, "compressor"); !compressor.is_null()) {
    if (!compressor.is_object()) throw data_error("'compressor' is no object");
    take_codec(out, text_of(compressor, "id"));
  }
  if (const auto filters = json.find("filters"); filters != json.end() && !filters->is_null() && !filters->empty()) {
    const Json& first = filters->is_array() ? filters->front() : *filters;
    throw data_error(cat("the filter ", quoted(first.is_object() && first.contains("id") ? first.at("id") : first),
                         " is not supported"));
  }
  out.separator = json.contains("dimension_separator") ? text_of(json, "dimension_separator") : ".";
  out.fill = fill_of(member(json, "fill_value"), out.type.dtype);
  out.zero_key = true;
  return out;
}

const Json& configuration(const Json& json) {
  static const Json kNone = Json::object();
  const auto it = json.find("configuration");
  if (it == json.end()) return kNone;
  if (!it->is_object()) throw data_error("a 'configuration' is no object");
  return *it;
}

void take_transpose(Metadata& out, const Json& codec) {
  const Shape order = dims_of(configuration(codec), "order", 0);
  std::vector<bool> seen(static_cast<std::size_t>(out.shape.size()));
  bool good = order.size() == out.shape.size();
  std::vector<int> stored;
  for (int d = 0; good && d < order.size(); ++d) {
    good = order[d] < out.shape.size() && !seen[static_cast<std::size_t>(order[d])];
    if (!good) break;
    seen[static_cast<std::size_t>(order[d])] = true;
    stored.push_back(out.stored_dims[static_cast<std::size_t>(order[d])]);
  }
  if (!good) throw data_error("the order of a transpose codec is no permutation of the dimensions");
  out.stored_dims = std::move(stored);
}

void take_codecs_v3(Metadata& out, const Json& codecs) {
  if (!codecs.is_array()) throw data_error("'codecs' is no list");
  bool bytes = false;
  for (const Json& codec : codecs) {
    if (!codec.is_object()) throw data_error("a codec is no object");
    const std::string name = text_of(codec, "name");
    if (name == "transpose" && !bytes) {
      take_transpose(out, codec);
    } else if (name == "bytes" && !bytes) {
      bytes = true;
      const Json& settings = configuration(codec);
      if (!settings.contains("endian")) {
        if (out.type.dtype.swap_bytes() > 1) throw data_error("the bytes codec lacks 'endian'");
        continue;
      }
      const std::string endian = text_of(settings, "endian");
      if (endian != "little" && endian != "big") throw data_error(cat("endian is ", in_quotes(endian)));
      out.type.order = endian == "big" ? ByteOrder::big : ByteOrder::little;
    } else if ((name == "gzip" || name == "zstd") && bytes && out.codec.empty()) {
      take_codec(out, name);
    } else {
      throw data_error(cat("the codec ", in_quotes(name),
                           " is not supported by this build: expected transpose, bytes, then gzip or zstd"));
    }
  }
  if (!bytes) throw data_error("'codecs' has no bytes codec");
}

Metadata read_v3(const Json& json) {
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
    throw data_error("has storage_transformers, which are not supported by this build");
  }
  const Json& type = member(json, "data_type");
  static constexpr std::string_view kTypes[] = {"bool",    "int8",    "int16",     "int32",      "int64",
                                                "uint8",   "uint16",  "uint32",    "uint64",     "float16",
                                                "float32", "float64", "complex64", "complex128", "bfloat16"};
  if (!type.is_string() ||
      std::find(std::begin(kTypes), std::end(kTypes), type.get<std::string>()) == std::end(kTypes)) {
    throw data_error(cat("the data type ", quoted(type), " cannot be loaded"));
  }
  out.type = parse_dtype(type.get<std::string>());
  out.shape = dims_of(json, "shape", 0);
  const Json& grid = member(json, "chunk_grid");
  if (!grid.is_object() || text_of(grid, "name") != "regular") throw data_error("the chunk grid is not 'regular'");
  out.chunk = dims_of(configuration(grid), "chunk_shape", 1);
  out.stored_dims = in_order(out.shape.size(), false);
  const Json& keys = member(json, "chunk_key_encoding");
  if (!keys.is_object()) throw data_error("'chunk_key_encoding' is no object");
  const std::string name = text_of(keys, "name");
  if (name != "default" && name != "v2")
    throw data_error(cat("the chunk key encoding ", in_quotes(name), " is unknown"));
  const bool own = configuration(keys).contains("separator");
  out.separator = own ? text_of(configuration(keys), "separator") : name == "v2" ? "." : "/";
  if (name != "v2") out.prefix.push_back('c');
  out.zero_key = name == "v2";
  take_codecs_v3(out, member(json, "codecs"));
  out.fill = fill_of(member(json, "fill_value"), out.type.dtype);
  if (out.fill.empty()) throw data_error("the fill value is null");
  return out;
}

std::string chunk_path(const std::string& folder, const Metadata& data, const Dims& index) {
  std::string key = data.prefix;
  for (int d = 0; d < index.size(); ++d) {
    if (!key.empty()) key += data.separator;
    key += std::to_string(index[d]);
  }
  if (index.empty() && data.zero_key) key.push_back('0');
  return join_path(folder, key);
}

Header describe(const std::string& folder, const Metadata& data, ByteSourceFactory& sources, const ReadHints& hints,
                FileTable& files) {
  if (data.chunk.size() != data.shape.size()) throw data_error("chunks and shape differ in their dimensions");
  if (data.separator != "." && data.separator != "/")
    throw data_error(cat("the separator is ", in_quotes(data.separator)));
  Header out;
  out.dtype = data.type.dtype;
  out.shape = data.shape;
  out.fill = hints.fill && data.fill.empty() ? parse_element(*hints.fill, out.dtype) : data.fill;
  std::int64_t chunk_bytes = out.dtype.itemsize(), chunks = 1;
  bool empty = false;
  for (int d = 0; d < data.shape.size(); ++d) empty = empty || data.shape[d] == 0;
  Dims counts = Dims::filled(data.shape.size(), 0);
  for (int d = 0; d < data.shape.size(); ++d) {
    const auto bytes = checked_mul(chunk_bytes, data.chunk[d]);
    counts[d] = ceil_div(data.shape[d], data.chunk[d]);
    const auto number = checked_mul(chunks, empty ? 0 : counts[d]);
    if (!bytes || !number || *number > kMaxChunks) {
      throw data_error(cat("chunks of more bytes than can be, or more than ", kMaxChunks, " of them"));
    }
    chunk_bytes = *bytes;
    chunks = *number;
  }
  const bool forward = data.stored_dims == in_order(data.shape.size(), false);
  const bool backward = data.stored_dims == in_order(data.shape.size(), true);
  if (data.codec.empty() && (forward || backward)) {
    out.byte_order = data.type.order;
    out.order = forward ? ElementOrder::c : ElementOrder::f;
  } else {
    const Json codec = {{"codec", data.codec}, {"big", data.type.order == ByteOrder::big}, {"dims", data.stored_dims}};
    out.encoding = Encoding{"zarr", codec.dump()};
  }
  ChunkGrid grid;
  grid.chunk_shape = data.chunk;
  std::int64_t absent = 0;
  Dims index = Dims::filled(data.shape.size(), 0);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::string path = chunk_path(folder, data, index);
    std::int64_t offset = -1, stored = 0;
    std::int32_t file = -1;
    if (exists(path)) {
      const FileStamp stamp = sources.open(path)->stamp();
      if (!out.encoding && stamp.size_bytes != chunk_bytes) {
        throw file_error(path, cat("has ", stamp.size_bytes, " bytes: expected ", chunk_bytes),
                         cat(chunk_bytes, " bytes"), cat(stamp.size_bytes, " bytes"));
      }
      file = files.add(path, stamp);
      offset = 0;
      stored = stamp.size_bytes;
    } else if (hints.strict || out.fill.empty()) {
      throw file_error(path, hints.strict ? "the chunk is absent (--strict)"
                                          : "the chunk is absent and the array has no fill value: give --fill");
    } else {
      ++absent;
    }
    grid.offsets.push_back(offset);
    grid.stored_bytes.push_back(stored);
    grid.files.push_back(file);
    for (int d = index.size(); d-- > 0 && ++index[d] == counts[d];) index[d] = 0;
  }
  if (absent > 0) out.note = cat(absent, " of ", chunks, " chunks are absent: they hold the fill value");
  if (!data.shape.empty()) {
    out.grid = std::move(grid);
  } else if (absent > 0) {
    throw data_error("the only chunk of an array of 0 dimensions is absent: this is not supported");
  } else {
    out.file = grid.files[0];
    out.offset_bytes = 0;
    out.stored_bytes = grid.stored_bytes[0];
  }
  return out;
}

/// The arrays of a store, by the names of their folders.
class Store {
 public:
  explicit Store(ByteSourceFactory& sources) : sources_(sources) {}

  void walk(const std::string& folder, const std::string& name, int depth) {
    if (depth > kMaxDepth) throw file_error(folder, cat("groups are nested deeper than ", kMaxDepth));
    const std::string v3 = join_path(folder, "zarr.json"), v2 = join_path(folder, ".zarray");
    if (exists(v3)) {
      const Json json = load(v3);
      const std::string kind =
          json.value("node_type", Json()).is_string() ? json.at("node_type").get<std::string>() : "";
      if (json.value("zarr_format", Json()) != 3 || (kind != "array" && kind != "group")) {
        throw file_error(v3, "is not the metadata of a zarr 3 array or group");
      }
      if (kind == "array") {
        found.push_back({name, folder, v3, json, true});
        return;
      }
    } else if (exists(v2)) {
      found.push_back({name, folder, v2, load(v2), false});
      return;
    }
    std::vector<std::string> children;
    std::error_code failed;
    for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
      if (it->is_directory(failed)) children.push_back(it->path().filename().string());
    }
    if (failed) throw errno_error(failed.value(), folder, "cannot list");
    std::sort(children.begin(), children.end());
    for (const std::string& child : children) {
      const std::string below = join_path(folder, child);
      if (recognise_store(below)) walk(below, name.empty() ? child : cat(name, "/", child), depth + 1);
    }
  }

  struct Found {
    std::string name, folder, file;
    Json json;
    bool v3;
  };
  std::vector<Found> found;

 private:
  Json load(const std::string& path) {
    try {
      return parse_metadata(*sources_.open(path));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      throw as_file_error(path, error);
    }
  }

  ByteSourceFactory& sources_;
};

std::vector<Header> discover_store(const std::string& folder, ByteSourceFactory& sources, const ReadHints& hints,
                                   FileTable& files) {
  Store store(sources);
  store.walk(folder, "", 0);
  if (store.found.empty()) throw file_error(folder, "is a zarr group without arrays");
  std::vector<std::string> names;
  for (const auto& each : store.found) names.push_back(each.name);
  const bool unnamed = names.size() == 1 && names[0].empty();
  if (!unnamed) require_arrays(folder, hints.arrays, names);
  std::vector<Header> out;
  for (const auto& each : store.found) {
    if (!unnamed && !is_wanted(hints.arrays, each.name)) continue;
    try {
      out.push_back(describe(each.folder, each.v3 ? read_v3(each.json) : read_v2(each.json), sources, hints, files));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data || !error.facts().file.empty()) throw;
      throw as_file_error(each.file, error);
    }
    out.back().name = each.name;
  }
  return out;
}

std::size_t inflate_all(std::span<const std::byte> stored, std::span<std::byte> out) {
  if (stored.size() > UINT_MAX || out.size() > UINT_MAX) throw data_error("a deflated chunk of more than 4 GiB");
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + 32) != Z_OK) throw Error(ErrorKind::system, "out of memory for zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stored.data()));
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  const std::size_t made = out.size() - stream.avail_out;
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_in != 0)
    throw data_error("corrupt or truncated deflate stream, or one of more bytes than the chunk");
  return made;
}

void decompress(const std::string& codec, std::span<const std::byte> stored, std::span<std::byte> out) {
  std::size_t made = stored.size();
  if (codec.empty()) {
    if (made == out.size()) std::copy(stored.begin(), stored.end(), out.begin());
  } else if (codec == "zstd") {
    made = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
    if (ZSTD_isError(made)) throw data_error(cat("corrupt zstd frame: ", ZSTD_getErrorName(made)));
  } else if (codec == "lz4") {  // numcodecs: the size in 4 bytes, then a raw block
    if (stored.size() < 4 || stored.size() > INT_MAX || out.size() > INT_MAX) throw data_error("corrupt lz4 chunk");
    const int n =
        LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()) + 4, reinterpret_cast<char*>(out.data()),
                            static_cast<int>(stored.size() - 4), static_cast<int>(out.size()));
    if (n < 0) throw data_error("corrupt lz4 block");
    made = static_cast<std::size_t>(n);
  } else {
    made = inflate_all(stored, out);
  }
  if (made != out.size()) throw data_error(cat("a chunk unpacks to ", made, " bytes: expected ", out.size()));
}

void decode(const Encoding& encoding, const Piece& piece, DType dtype, std::span<const std::byte> stored,
            std::span<std::byte> out) {
  const Json settings = Json::parse(encoding.codec);
  const auto dims = settings.at("dims").get<std::vector<int>>();
  const int ndim = static_cast<int>(dims.size());
  const std::int64_t swap = settings.at("big").get<bool>() ? dtype.swap_bytes() : 1;
  const auto codec = settings.at("codec").get<std::string>();
  if (dims == in_order(ndim, false)) {
    decompress(codec, stored, out);
    if (swap > 1) swap_in_place(out.data(), static_cast<std::int64_t>(out.size()), swap);
    return;
  }
  std::vector<std::byte> turned(out.size());
  decompress(codec, stored, turned);
  StridedBytes from{turned.data(), Dims::filled(ndim, 0)}, to{out.data(), Dims::filled(ndim, 0)};
  std::int64_t step = dtype.itemsize(), plain = dtype.itemsize();
  for (int i = ndim; i-- > 0;) {
    const int d = dims[static_cast<std::size_t>(i)];
    from.strides_bytes[d] = step;
    to.strides_bytes[i] = plain;
    step *= piece.stored_shape[d];
    plain *= piece.stored_shape[i];
  }
  strided_copy(to, from, piece.stored_shape, dtype.itemsize(), swap);
}

std::vector<Header> discover(ByteSource& source, const ReadHints&) {
  throw file_error(source.path(), "is a file: a zarr store is a folder");
}

}  // namespace

extern const Format zarr_format;
const Format zarr_format{"zarr", {}, recognise, discover, decode, true, recognise_store, discover_store};

}  // namespace loadstone
