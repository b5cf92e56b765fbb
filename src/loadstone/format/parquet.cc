#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/parse_element.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/arrow/plugin.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"

namespace loadstone {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "PAR1", kEncrypted = "PARE";

bool is(std::span<const std::byte> bytes, std::string_view word) {
  return bytes.size() >= word.size() && std::memcmp(bytes.data(), word.data(), word.size()) == 0;
}

bool recognise(std::span<const std::byte> head) {
  return is(head, kMagic) || is(head, kEncrypted);
}

void rethrow(const PluginStatus& status, std::string_view path) {
  if (status.kind == PluginStatus::Kind::good) return;
  if (status.kind == PluginStatus::Kind::system) {
    throw Error(ErrorKind::system, cat(in_quotes(path), ": ", status.message), {std::string(path), {}, {}, 0});
  }
  throw file_error(path, status.message);
}

/// The last 8 bytes: length of the footer, magic. What is cut or encrypted is said before Arrow sees it.
void check_ends(ByteSource& source) {
  const std::string_view path = source.path();
  const std::int64_t size = source.stamp().size_bytes;
  if (size < 12) {
    throw file_error(path, cat("truncated Parquet file: expected at least 12 bytes, found ", size), "at least 12 bytes",
                     cat(size, " bytes"));
  }
  std::array<std::byte, 4> head{};
  std::array<std::byte, 8> tail{};
  source.read(0, head);
  source.read(size - 8, tail);
  if (is(head, kEncrypted) || is(std::span(tail).subspan(4), kEncrypted)) {
    throw file_error(path, "the Parquet file is encrypted, which loadstone cannot read");
  }
  if (!is(std::span(tail).subspan(4), kMagic)) {
    throw file_error(path, "truncated Parquet file: no footer, expected PAR1 in the last 4 bytes", "PAR1",
                     "other bytes");
  }
  std::uint32_t length = 0;
  for (std::size_t i = 4; i-- > 0;) length = length << 8 | std::to_integer<std::uint32_t>(tail[i]);
  if (length == 0 || length > size - 12) {
    throw file_error(path,
                     cat("the footer claims ", length, " bytes: expected 1 to ", size - 12, " in a file of ", size),
                     cat("1 to ", size - 12, " bytes"), cat(length, " bytes"));
  }
}

/// Arrow's answer as what a caller can load: why a column cannot be, or its type.
std::string refusal_of(const ParquetColumn& column, const ReadHints& hints) {
  if (!column.refusal.empty() || column.time.empty()) return column.refusal;
  const DType ticks = parse_dtype(column.dtype).dtype;
  if (hints.dtype && hints.dtype->dtype.whole_bytes() && hints.dtype->dtype.itemsize() == ticks.itemsize()) return {};
  return cat("holds ", column.time, ": times are loaded as ticks when their type is named (--dtype ", column.dtype,
             ")");
}

DType dtype_of(const ParquetColumn& column, const ReadHints& hints) {
  if (!column.time.empty() && hints.dtype) return hints.dtype->dtype;
  return parse_dtype(column.dtype).dtype;
}

/// Row groups as chunks of one array made of these leaves, from the first byte of any to the last of any.
Header header_of(ByteSource& source, const ParquetFooter& footer, const std::vector<const ParquetColumn*>& leaves,
                 const ReadHints& hints) {
  const ParquetColumn& first = *leaves.front();
  Header out;
  out.name = first.name;
  out.dtype = dtype_of(first, hints);
  out.shape = {footer.row_bounds.back()};
  if (leaves.size() > 1) out.shape.push_back(static_cast<std::int64_t>(leaves.size()));
  for (const std::int64_t extent : first.row_shape) out.shape.push_back(extent);
  ChunkGrid grid;
  grid.row_bounds = {0};
  std::int64_t between = 0;
  for (std::size_t group = 0; group + 1 < footer.row_bounds.size(); ++group) {
    if (footer.row_bounds[group + 1] == footer.row_bounds[group]) continue;
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0, own = 0;
    for (const ParquetColumn* leaf : leaves) {
      const ParquetChunk& chunk = footer.chunks[group][static_cast<std::size_t>(leaf->leaf)];
      begin = std::min(begin, chunk.offset_bytes);
      end = std::max(end, chunk.offset_bytes + chunk.stored_bytes);
      own += chunk.stored_bytes;
    }
    grid.row_bounds.push_back(footer.row_bounds[group + 1]);
    grid.offsets.push_back(begin);
    grid.stored_bytes.push_back(end - begin);
    between += end - begin - own;
  }
  if (between > 0) {
    out.note = cat("other columns lie between those asked for: ", between, " bytes more are read than needed");
  }
  Json codec = {{"size", source.stamp().size_bytes}, {"mtime", source.stamp().mtime_ns}, {"type", first.dtype},
                {"row_shape", first.row_shape},      {"leaves", Json::array()},          {"names", Json::array()}};
  if (hints.fill) {
    parse_element(*hints.fill, out.dtype);  // a value that does not fit is refused now
    codec["fill"] = *hints.fill;
  }
  for (const ParquetColumn* leaf : leaves) {
    codec["leaves"].push_back(leaf->leaf);
    codec["names"].push_back(leaf->name);
  }
  if (!grid.offsets.empty()) {
    out.grid = std::move(grid);
    // One line of JSON, then the path: paths are bytes, not text.
    out.encoding =
        Encoding{"parquet", cat(codec.dump(-1, ' ', false, Json::error_handler_t::replace), "\n", source.path())};
  }
  return out;
}

/// --columns: one array of several columns, which must be alike.
Header joined_columns(ByteSource& source, const ParquetFooter& footer, const ReadHints& hints) {
  std::vector<const ParquetColumn*> leaves;
  for (const std::string& name : hints.columns) {
    const auto it = std::find_if(footer.columns.begin(), footer.columns.end(),
                                 [&](const ParquetColumn& column) { return column.name == name; });
    if (it == footer.columns.end()) throw file_error(source.path(), cat("has no column ", in_quotes(name)));
    if (const std::string refusal = refusal_of(*it, hints); !refusal.empty()) {
      throw file_error(source.path(), cat("column ", in_quotes(name), " ", refusal));
    }
    if (!leaves.empty() && (it->dtype != leaves[0]->dtype || it->row_shape != leaves[0]->row_shape)) {
      throw file_error(source.path(),
                       cat("columns ", in_quotes(leaves[0]->name), " and ", in_quotes(name),
                           " make no one array: ", leaves[0]->dtype, " and ", it->dtype, " (loading does not cast)"),
                       leaves[0]->dtype, it->dtype);
    }
    leaves.push_back(&*it);
  }
  Header out = header_of(source, footer, leaves, hints);
  out.name = join(hints.columns, ",");
  if (leaves.size() == 1) {  // (rows, 1): as many columns as were asked for
    Shape shape{out.shape[0], 1};
    for (const std::int64_t extent : leaves[0]->row_shape) shape.push_back(extent);
    out.shape = shape;
  }
  return out;
}

std::vector<Header> discover(ByteSource& source, const ReadHints& hints) {
  check_ends(source);
  ParquetFooter footer;
  rethrow(arrow_plugin().parquet_footer(source, footer), source.path());
  if (!hints.columns.empty()) return {joined_columns(source, footer, hints)};
  std::vector<std::string> names;
  for (const ParquetColumn& column : footer.columns) names.push_back(column.name);
  require_arrays(source.path(), hints.arrays, names);
  std::vector<Header> out;
  std::string left_out;
  for (const ParquetColumn& column : footer.columns) {
    const bool asked = std::find(hints.arrays.begin(), hints.arrays.end(), column.name) != hints.arrays.end();
    if (!asked && !hints.arrays.empty()) continue;
    const std::string refusal = refusal_of(column, hints);
    if (refusal.empty()) {
      out.push_back(header_of(source, footer, {&column}, hints));
    } else if (asked) {
      throw file_error(source.path(), cat("column ", in_quotes(column.name), " ", refusal));
    } else {
      left_out += cat(left_out.empty() ? "" : "; ", "column ", in_quotes(column.name), " ", refusal);
    }
  }
  if (out.empty() && !left_out.empty()) throw file_error(source.path(), cat("no column can be loaded: ", left_out));
  if (!out.empty() && !left_out.empty()) out.front().note += cat("left out: ", left_out);
  return out;
}

void decode(const Encoding& encoding, const Piece& piece, DType dtype, std::span<const std::byte> stored,
            std::span<std::byte> out) {
  const std::size_t end = encoding.codec.find('\n');
  const Json codec = Json::parse(encoding.codec.substr(0, end));
  ParquetRequest request;
  request.path = encoding.codec.substr(end + 1);
  request.stamp = {codec.at("size").get<std::int64_t>(), codec.at("mtime").get<std::int64_t>()};
  request.offset_bytes = piece.offset_bytes;
  request.rows = piece.stored_shape[0];
  request.leaves = codec.at("leaves").get<std::vector<int>>();
  request.names = codec.at("names").get<std::vector<std::string>>();
  request.row_shape = codec.at("row_shape").get<std::vector<std::int64_t>>();
  request.dtype = codec.at("type").get<std::string>();
  request.stored = stored;
  request.out = out;
  request.reopen = [&] { return pread_sources().open(request.path); };
  std::vector<std::byte> fill;
  if (codec.contains("fill")) fill = parse_element(codec["fill"].get<std::string>(), dtype);
  request.fill = fill;
  rethrow(arrow_plugin().parquet_decode(request), request.path);
}

}  // namespace

extern const Format parquet_format;
const Format parquet_format{"parquet", {".parquet", ".parq", ".pq"}, recognise, discover, decode};

}  // namespace loadstone
