// The Arrow IPC file format (also called Feather V2), by an own bounded parser: columns of fixed-width values lie in
// the file as they are in memory, so that an uncompressed one is read in place, by no library.
// Source: Apache Arrow, docs/source/format/Columnar.rst, format/{File,Message,Schema}.fbs

#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/array/parse_element.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/arrow_schema.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"

namespace loadstone {

namespace {

constexpr std::string_view kMagic = "ARROW1", kFeatherV1 = "FEA1", kStream = "\xff\xff\xff\xff";

bool is(std::span<const std::byte> bytes, std::string_view word) {
  return bytes.size() >= word.size() && std::memcmp(bytes.data(), word.data(), word.size()) == 0;
}

/// The stream format begins with a marker and a length that is a multiple of 8; raw -1s do not.
bool is_stream(std::span<const std::byte> head) {
  std::int32_t length = 0;
  if (!is(head, kStream) || head.size() < 8) return false;
  std::memcpy(&length, head.data() + 4, sizeof length);
  return length > 0 && length % 8 == 0;
}

bool recognise(std::span<const std::byte> head) {
  return is(head, kMagic) || is(head, kFeatherV1) || is_stream(head);
}

/// Where a record batch lies, as the footer says.
struct Block {
  std::int64_t offset = 0, metadata_bytes = 0, body_bytes = 0;
};

struct Buffer {
  std::int64_t offset = 0, bytes = 0;  ///< in the file
};

/// One column in one record batch.
struct Chunk {
  std::int64_t rows = 0, values = 0, nulls = 0;
  Buffer data, offsets, validity;
};

enum class Codec : std::uint8_t { none, lz4_frame, zstd };

struct Batch {
  std::int64_t rows = 0;
  Codec codec = Codec::none;
  std::vector<std::int64_t> lengths, nulls;  // of the nodes
  std::vector<Buffer> buffers;
};

std::vector<std::byte> read_bytes(ByteSource& source, std::int64_t offset, std::int64_t count) {
  std::vector<std::byte> out(static_cast<std::size_t>(count));
  if (count > 0) source.read(offset, out);
  return out;
}

/// The footer's bytes; what is cut, or another format of the family, is said by name.
std::vector<std::byte> read_footer(ByteSource& source) {
  const std::string_view path = source.path();
  const std::int64_t size = source.stamp().size_bytes;
  const std::vector<std::byte> head = read_bytes(source, 0, std::min<std::int64_t>(size, 8));
  if (is(head, kFeatherV1)) {
    throw file_error(path,
                     "is Feather version 1, which is not supported: write it anew (pyarrow.feather.write_feather)");
  }
  if (is_stream(head)) {
    throw file_error(path, "is an Arrow IPC stream, which tells no positions: write it as an IPC file");
  }
  if (!is(head, kMagic)) throw file_error(path, "not an Arrow IPC file (bad magic)", "the magic ARROW1", "other bytes");
  constexpr std::int64_t kEnds = 8 + 4 + 6;
  if (size < kEnds) {
    throw file_error(path, cat("truncated Arrow IPC file: expected at least ", kEnds, " bytes, found ", size),
                     cat("at least ", kEnds, " bytes"), cat(size, " bytes"));
  }
  const std::vector<std::byte> tail = read_bytes(source, size - 10, 10);
  if (!is(std::span(tail).subspan(4), kMagic)) {
    throw file_error(path, "truncated Arrow IPC file: no footer, expected ARROW1 in the last 6 bytes", "ARROW1",
                     "other bytes");
  }
  std::int32_t length = 0;
  std::memcpy(&length, tail.data(), sizeof length);
  if (length <= 0 || length > size - kEnds) {
    throw file_error(path, cat("the footer claims ", length, " bytes: expected 1 to ", size - kEnds),
                     cat("1 to ", size - kEnds, " bytes"), cat(length, " bytes"));
  }
  return read_bytes(source, size - 10 - length, length);
}

std::vector<Block> blocks_of(const FlatTable& footer, std::int64_t file_bytes) {
  const FlatTable::Vector list = footer.vector(3, 24);
  std::vector<Block> out;
  for (std::size_t i = 0; i < list.size; ++i) {
    const std::size_t place = list.begin + 24 * i;
    const Block block{footer.load<std::int64_t>(place), footer.load<std::int32_t>(place + 8),
                      footer.load<std::int64_t>(place + 16)};
    const auto body = checked_add(block.offset, block.metadata_bytes);
    const auto end = body ? checked_add(*body, block.body_bytes) : std::nullopt;
    if (block.offset < 8 || block.metadata_bytes < 8 || block.body_bytes < 0 || !end || *end > file_bytes) {
      throw data_error(cat("record batch ", i, " claims bytes ", block.offset, " to ", end.value_or(-1),
                           " of a file of ", file_bytes));
    }
    out.push_back(block);
  }
  return out;
}

/// Arrow 0.17 named the compression of a batch in its message's metadata, before the format had a place for it.
Codec codec_of_0_17(const FlatTable& message, std::size_t number) {
  const FlatTable::Vector pairs = message.vector(4, 4);
  for (std::size_t i = 0; i < pairs.size; ++i) {
    const FlatTable pair = message.element(pairs, i);
    if (pair.text(0) != "ARROW:experimental_compression") continue;
    const std::string codec(pair.text(1));
    if (codec == "lz4") return Codec::lz4_frame;
    if (codec == "zstd") return Codec::zstd;
    throw data_error(cat("record batch ", number, " has unknown compression ", in_quotes(codec)));
  }
  return Codec::none;
}

Batch batch_of(ByteSource& source, const Block& block, std::size_t number) {
  const std::vector<std::byte> bytes = read_bytes(source, block.offset, block.metadata_bytes);
  // A marker before the length since version 0.15.
  const std::size_t skip = is(bytes, kStream) ? 8 : 4;
  const FlatTable message = FlatTable::root(std::span<const std::byte>(bytes).subspan(skip));
  const auto header = message.table(2);
  if (message.scalar<std::uint8_t>(1, 0) != 3 || !header) {
    throw data_error(cat("block ", number, " of the footer is no record batch"));
  }
  Batch out;
  out.rows = header->scalar<std::int64_t>(0, 0);
  constexpr std::int64_t kMostRows = std::int64_t{1} << 60;
  if (out.rows < 0 || out.rows > kMostRows) {
    throw data_error(cat("record batch ", number, " claims ", out.rows, " rows"));
  }
  if (const auto compression = header->table(3)) {
    const int codec = compression->scalar<std::int8_t>(0, 0);
    if (codec != 0 && codec != 1) throw data_error(cat("record batch ", number, " has unknown compression ", codec));
    out.codec = codec == 0 ? Codec::lz4_frame : Codec::zstd;
  } else {
    out.codec = codec_of_0_17(message, number);
  }
  const FlatTable::Vector nodes = header->vector(1, 16), buffers = header->vector(2, 16);
  for (std::size_t i = 0; i < nodes.size; ++i) {
    out.lengths.push_back(header->load<std::int64_t>(nodes.begin + 16 * i));
    out.nulls.push_back(header->load<std::int64_t>(nodes.begin + 16 * i + 8));
  }
  const std::int64_t body = block.offset + block.metadata_bytes;
  for (std::size_t i = 0; i < buffers.size; ++i) {
    const auto offset = header->load<std::int64_t>(buffers.begin + 16 * i);
    const auto length = header->load<std::int64_t>(buffers.begin + 16 * i + 8);
    if (offset < 0 || length < 0 || offset > block.body_bytes || length > block.body_bytes - offset) {
      throw data_error(
          cat("buffer ", i, " of record batch ", number, " lies outside its body of ", block.body_bytes, " bytes"));
    }
    out.buffers.push_back({body + offset, length});
  }
  return out;
}

/// The part of a batch that belongs to the field whose nodes and buffers begin at these numbers.
Chunk chunk_of(const Batch& batch, const ArrowField& field, std::size_t node, std::size_t buffer) {
  if (node + static_cast<std::size_t>(field.nodes) > batch.lengths.size() ||
      buffer + static_cast<std::size_t>(field.buffers) > batch.buffers.size()) {
    throw data_error("a record batch has fewer buffers than the schema says");
  }
  Chunk out;
  const std::size_t last_node = node + static_cast<std::size_t>(field.nodes) - 1;
  out.rows = batch.lengths[node];
  out.values = batch.lengths[last_node];
  for (std::size_t i = node; i <= last_node; ++i) {
    const auto sum = checked_add(out.nulls, batch.nulls[i]);
    if (batch.nulls[i] < 0 || batch.nulls[i] > batch.lengths[i] || !sum) {
      throw data_error(cat("column ", in_quotes(field.name), " claims ", batch.nulls[i], " nulls among ",
                           batch.lengths[i], " values"));
    }
    out.nulls = *sum;
  }
  out.data = batch.buffers[buffer + static_cast<std::size_t>(field.buffers) - 1];
  out.validity = batch.buffers[buffer];
  if (!field.list_sizes.empty() && field.list_sizes.front() == -1) out.offsets = batch.buffers[buffer + 1];
  if (out.rows != batch.rows) {
    throw data_error(
        cat("column ", in_quotes(field.name), " has ", out.rows, " rows in a record batch of ", batch.rows));
  }
  return out;
}

/// Where the column's elements begin in its data buffer, and the shape of a row; or why a column that is well formed
/// makes no array, which is fatal only when it was asked for.
struct Values {
  std::vector<std::int64_t> row_shape;
  std::int64_t first = 0;
  std::string refusal;
};

/// A buffer of a compressed batch: its length unpacked (-1: it is not packed), then a frame.
void unpack(std::string_view codec, std::span<const std::byte> stored, std::span<std::byte> out);

std::string codec_name(Codec codec) {
  return codec == Codec::none ? "none" : codec == Codec::zstd ? "zstd" : "lz4_frame";
}

/// Whether lists have one length, from their offsets, which come in slices.
class ListLengths {
 public:
  explicit ListLengths(Values& out) : out_(out) {}

  /// False when they differ: out.refusal says where.
  template <typename Offset>
  bool add(std::span<const Offset> offsets) {
    for (const Offset each : offsets) {
      const auto offset = static_cast<std::int64_t>(each);
      if (seen_++ == 0) {
        first_ = offset;
      } else {
        if (length_ == -1) length_ = offset - before_;
        if (length_ < 0 || offset - before_ != length_) {
          out_.refusal = cat("holds lists of unequal lengths: row ", seen_ - 2, " of the record batch has ",
                             offset - before_, " elements, those before it ", length_);
          return false;
        }
      }
      before_ = offset;
    }
    return true;
  }
  void finish(std::string_view name) const {
    if (first_ < 0) throw data_error(cat("column ", in_quotes(name), " has a negative offset"));
    out_.row_shape.front() = length_;
    out_.first = first_;
    for (std::size_t d = 1; d < out_.row_shape.size(); ++d) out_.first *= out_.row_shape[d];
  }

 private:
  Values& out_;
  std::int64_t first_ = 0, before_ = 0, length_ = -1, seen_ = 0;
};

/// Reads the offsets of a list column: the length of its lists and the first value go to `out`, or that they differ.
template <typename Offset>
void read_offsets(ByteSource& source, const Chunk& chunk, Codec codec, std::string_view name, Values& out) {
  const auto wanted = checked_mul(chunk.rows + 1, sizeof(Offset));
  const auto demand = [&](bool enough) {
    if (!enough) throw data_error(cat("column ", in_quotes(name), " lacks offsets"));
  };
  ListLengths lengths(out);
  std::vector<Offset> slice;
  if (codec != Codec::none) {
    // Offsets that ascend hardly repeat: what would unpack to more is only a claim.
    constexpr std::int64_t kAlways = 64 << 20, kRatio = 1024;
    demand(wanted && *wanted <= std::max(kAlways, checked_mul(chunk.offsets.bytes, kRatio).value_or(0)));
    slice.resize(static_cast<std::size_t>(chunk.rows + 1));
    unpack(codec_name(codec), read_bytes(source, chunk.offsets.offset, chunk.offsets.bytes),
           std::as_writable_bytes(std::span(slice)));
    if (!lengths.add(std::span<const Offset>(slice))) return;
  } else {
    demand(wanted && chunk.offsets.bytes >= *wanted);
    constexpr std::int64_t kSlice = 1 << 16;
    for (std::int64_t row = 0; row <= chunk.rows; row += kSlice) {
      slice.resize(static_cast<std::size_t>(std::min(kSlice, chunk.rows + 1 - row)));
      source.read(chunk.offsets.offset + row * static_cast<std::int64_t>(sizeof(Offset)),
                  std::as_writable_bytes(std::span(slice)));
      if (!lengths.add(std::span<const Offset>(slice))) return;
    }
  }
  lengths.finish(name);
  if (codec != Codec::none && out.first != 0) {
    out.refusal = "holds compressed lists that do not begin with the first value of their buffer";
  }
}

Values values_of(ByteSource& source, const Batch& batch, const ArrowField& field, const Chunk& chunk, bool fill) {
  Values out{field.list_sizes, 0, {}};
  if (chunk.nulls > 0 && !(fill && field.list_sizes.empty())) {
    out.refusal = cat("holds ", chunk.nulls, " nulls in ", chunk.rows, " rows",
                      field.list_sizes.empty() ? " (--fill VALUE loads them)" : "");
  } else if (!out.row_shape.empty() && out.row_shape.front() == -1) {
    if (field.large_offsets) {
      read_offsets<std::int64_t>(source, chunk, batch.codec, field.name, out);
    } else {
      read_offsets<std::int32_t>(source, chunk, batch.codec, field.name, out);
    }
  }
  return out;
}

class Columns {
 public:
  Columns(ByteSource& source, const ReadHints& hints) : source_(source), hints_(hints), bytes_(read_footer(source)) {
    const FlatTable footer = FlatTable::root(bytes_);
    const auto schema = footer.table(1);
    if (!schema) throw data_error("the Arrow footer has no schema");
    big_endian_ = schema->scalar<std::int16_t>(0, 0) == 1;
    fields_ = arrow_fields(*schema);
    const std::vector<Block> blocks = blocks_of(footer, source.stamp().size_bytes);
    for (std::size_t i = 0; i < blocks.size(); ++i) batches_.push_back(batch_of(source, blocks[i], i));
  }

  std::vector<Header> headers() {
    std::vector<Header> out;
    std::string left_out;
    std::size_t node = 0, buffer = 0;
    bool lost = false;
    std::vector<std::string> names;
    for (const ArrowField& field : fields_) names.push_back(field.name);
    require_arrays(source_.path(), hints_.arrays, names);
    for (const ArrowField& field : fields_) {
      const bool asked = std::find(hints_.arrays.begin(), hints_.arrays.end(), field.name) != hints_.arrays.end();
      std::string refusal = refusal_of(field, lost);
      if (asked || hints_.arrays.empty()) {
        if (refusal.empty()) {
          Header header;
          refusal = describe(field, node, buffer, header);
          if (refusal.empty()) out.push_back(std::move(header));
        }
        const std::string said = cat("column ", in_quotes(field.name), " ", refusal);
        if (!refusal.empty() && asked) throw data_error(said);
        if (!refusal.empty()) left_out += cat(left_out.empty() ? "left out: " : "; ", said);
      }
      lost = lost || field.variadic;
      node += static_cast<std::size_t>(field.nodes);
      buffer += static_cast<std::size_t>(field.buffers);
    }
    if (out.empty() && !left_out.empty()) throw data_error(cat("no column can be loaded; ", left_out));
    if (!out.empty()) out.front().note = left_out;
    return out;
  }

 private:
  std::string refusal_of(const ArrowField& field, bool lost) const {
    if (!field.refusal.empty()) return field.refusal;
    if (lost) return "lies behind a column of views or unions, whose buffers are not counted";
    if (field.time.empty()) return {};
    if (hints_.dtype && hints_.dtype->dtype.elem_bits() == field.dtype.elem_bits()) return {};
    return cat("holds a ", field.time, ": times are loaded as ticks when their type is named (--dtype ",
               to_string(field.dtype), ")");
  }

  /// Fills `out`; or says why the column makes no array.
  std::string describe(const ArrowField& field, std::size_t node, std::size_t buffer, Header& out) {
    out.name = field.name;
    out.dtype = !field.time.empty() && hints_.dtype ? hints_.dtype->dtype : field.dtype;
    out.byte_order = big_endian_ && out.dtype.swap_bytes() > 1 ? ByteOrder::big : ByteOrder::little;
    std::vector<std::int64_t> row_shape = field.list_sizes;
    std::replace(row_shape.begin(), row_shape.end(), std::int64_t{-1}, std::int64_t{0});
    ChunkGrid grid;
    grid.row_bounds = {0};
    std::optional<Codec> codec;
    std::vector<std::int32_t> numbers;  // of the chunks' encodings; -1 = as the array's
    for (const Batch& batch : batches_) {
      const Chunk chunk = chunk_of(batch, field, node, buffer);
      if (chunk.rows == 0) continue;
      const Values values = values_of(source_, batch, field, chunk, hints_.fill.has_value());
      if (!values.refusal.empty()) return values.refusal;
      if (codec && (*codec != batch.codec || row_shape != values.row_shape)) {
        return "changes its list length or compression between record batches";
      }
      codec = batch.codec;
      row_shape = values.row_shape;
      add_chunk(grid, field, chunk, values, batch.codec);
      numbers.push_back(chunk.nulls == 0 ? -1 : static_cast<std::int32_t>(out.chunk_encodings.size()));
      if (chunk.nulls > 0) out.chunk_encodings.push_back(with_nulls(field, chunk, batch.codec, grid, out.dtype));
    }
    out.shape = {grid.row_bounds.back()};
    for (const std::int64_t extent : row_shape) out.shape.push_back(extent);
    if (grid.offsets.empty()) return {};
    if (*codec != Codec::none || field.bits) out.encoding = Encoding{"arrow", codec_text(*codec, field.bits)};
    if (!out.chunk_encodings.empty()) {
      const auto plain = out.encoding ? static_cast<std::int32_t>(out.chunk_encodings.size()) : -1;
      if (out.encoding) out.chunk_encodings.push_back(*out.encoding);
      std::replace(numbers.begin(), numbers.end(), -1, plain);
      grid.chunk_encodings = std::move(numbers);
    }
    if (out.byte_order == ByteOrder::big && (out.encoding || !out.chunk_encodings.empty())) {
      return "is big-endian, and compressed or with nulls";
    }
    out.grid = std::move(grid);
    return {};
  }

  static std::string codec_text(Codec codec, bool bits) { return cat(codec_name(codec), bits ? " bits" : ""); }

  /// --fill: the chunk added last becomes the range that holds its validity bits and its values; the encoding says
  /// where in it each lies, and what takes the place of nulls.
  Encoding with_nulls(const ArrowField& field, const Chunk& chunk, Codec codec, ChunkGrid& grid, DType dtype) const {
    const Buffer &validity = chunk.validity, &data = chunk.data;
    if (codec == Codec::none && validity.bytes < ceil_div(chunk.rows, 8)) {
      throw data_error(cat("column ", in_quotes(field.name), " claims ", chunk.nulls, " nulls without saying where"));
    }
    const std::int64_t begin = std::min(validity.offset, data.offset);
    grid.offsets.back() = begin;
    grid.stored_bytes.back() = std::max(validity.offset + validity.bytes, data.offset + data.bytes) - begin;
    parse_element(*hints_.fill, dtype);  // a value that does not fit is refused now
    return {"arrow", cat("nulls ", validity.offset - begin, " ", validity.bytes, " ", data.offset - begin, " ",
                         data.bytes, " ", *hints_.fill, " ", codec_text(codec, field.bits))};
  }

  static void add_chunk(ChunkGrid& grid, const ArrowField& field, const Chunk& chunk, const Values& values,
                        Codec codec) {
    std::optional<std::int64_t> count = chunk.rows;
    for (const std::int64_t extent : values.row_shape) count = count ? checked_mul(*count, extent) : count;
    const auto last = count ? checked_add(*count, values.first) : std::nullopt;
    const auto bits = last ? checked_mul(*last, field.bits ? 1 : field.dtype.elem_bits()) : std::nullopt;
    const std::int64_t bytes = bits ? ceil_div(*bits, 8) : -1;
    if (bytes < 0 || (last && chunk.values < *last)) {
      throw data_error(cat("column ", in_quotes(field.name), " holds ", chunk.values, " values in ", chunk.rows,
                           " rows: expected ", last.value_or(-1)));
    }
    const auto rows = checked_add(grid.row_bounds.back(), chunk.rows);
    if (!rows) throw data_error("the record batches claim more than 2^63-1 rows");
    grid.row_bounds.push_back(*rows);
    if (codec != Codec::none || field.bits) {
      if (codec == Codec::none && chunk.data.bytes < bytes) too_short(field, chunk.data.bytes, bytes);
      if (values.first != 0 && field.bits)
        throw data_error(cat("column ", in_quotes(field.name), " begins inside a byte"));
      grid.offsets.push_back(chunk.data.offset);
      grid.stored_bytes.push_back(codec == Codec::none ? bytes : chunk.data.bytes);
      return;
    }
    if (chunk.data.bytes < bytes) too_short(field, chunk.data.bytes, bytes);
    const std::int64_t skip = values.first * field.dtype.itemsize();
    grid.offsets.push_back(chunk.data.offset + skip);
    grid.stored_bytes.push_back(bytes - skip);
  }
  [[noreturn]] static void too_short(const ArrowField& field, std::int64_t found, std::int64_t expected) {
    throw data_error(
        cat("column ", in_quotes(field.name), " has a data buffer of ", found, " bytes: expected ", expected));
  }

  ByteSource& source_;
  const ReadHints& hints_;
  std::vector<std::byte> bytes_;
  bool big_endian_ = false;
  std::vector<ArrowField> fields_;
  std::vector<Batch> batches_;
};

std::vector<Header> discover(ByteSource& source, const ReadHints& hints) {
  try {
    return Columns(source, hints).headers();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || !error.facts().file.empty()) throw;
    throw as_file_error(source.path(), error);
  }
}

std::size_t unpack_lz4(std::span<const std::byte> stored, std::span<std::byte> out) {
  LZ4F_dctx* raw = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&raw, LZ4F_VERSION)))
    throw Error(ErrorKind::system, "out of memory for an LZ4 frame");
  const std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> context(raw,
                                                                                     LZ4F_freeDecompressionContext);
  std::size_t made = 0, used = 0;
  while (used < stored.size()) {
    std::size_t room = out.size() - made, taken = stored.size() - used;
    const std::size_t more = LZ4F_decompress(raw, out.data() + made, &room, stored.data() + used, &taken, nullptr);
    if (LZ4F_isError(more)) throw data_error(cat("corrupt LZ4 frame: ", LZ4F_getErrorName(more)));
    made += room;
    used += taken;
    if (more == 0) return made;
    if (room == 0 && taken == 0) throw data_error(cat("an LZ4 frame holds more than ", out.size(), " bytes"));
  }
  throw data_error("an LZ4 frame is cut short");
}

void unpack(std::string_view codec, std::span<const std::byte> stored, std::span<std::byte> out) {
  std::int64_t claimed = 0;
  if (stored.size() < sizeof claimed) {
    if (out.empty() && stored.empty()) return;
    throw data_error("a compressed buffer without its length");
  }
  std::memcpy(&claimed, stored.data(), sizeof claimed);
  stored = stored.subspan(sizeof claimed);
  const std::int64_t holds = claimed == -1 ? static_cast<std::int64_t>(stored.size()) : claimed;
  // Writers may pad buffers, so more than the elements need is right; what is beyond is not unpacked into `out`.
  if (holds < static_cast<std::int64_t>(out.size())) {
    throw data_error(cat("a compressed buffer holds ", holds, " bytes: expected ", out.size()));
  }
  if (claimed == -1) {
    std::copy_n(stored.begin(), out.size(), out.begin());
    return;
  }
  constexpr std::int64_t kPadding = 4096;
  if (holds - static_cast<std::int64_t>(out.size()) > kPadding) {
    throw data_error(cat("a compressed buffer claims ", holds, " bytes: expected ", out.size()));
  }
  std::vector<std::byte> padded;
  std::span<std::byte> to = out;
  if (holds > static_cast<std::int64_t>(out.size())) {
    padded.resize(static_cast<std::size_t>(holds));
    to = padded;
  }
  std::size_t made = 0;
  if (codec.starts_with("zstd")) {
    made = ZSTD_decompress(to.data(), to.size(), stored.data(), stored.size());
    if (ZSTD_isError(made)) throw data_error(cat("corrupt zstd frame: ", ZSTD_getErrorName(made)));
  } else {
    made = unpack_lz4(stored, to);
  }
  if (made != to.size()) throw data_error(cat("a compressed buffer unpacks to ", made, " bytes: expected ", to.size()));
  if (!padded.empty()) std::copy_n(padded.begin(), out.size(), out.begin());
}

/// The values of a buffer: unpacked, and booleans from bits to bytes.
void decode_values(std::string_view codec, std::span<const std::byte> stored, std::span<std::byte> out) {
  const bool packed = !codec.starts_with("none");
  if (!codec.ends_with(" bits")) {
    if (packed) return unpack(codec, stored, out);
    if (stored.size() < out.size()) throw data_error("a data buffer is cut short");
    std::copy_n(stored.begin(), out.size(), out.begin());
    return;
  }
  std::vector<std::byte> unpacked;
  if (packed) {
    unpacked.resize((out.size() + 7) / 8);
    unpack(codec, stored, unpacked);
    stored = unpacked;
  }
  if (stored.size() < (out.size() + 7) / 8) throw data_error("a buffer of booleans is cut short");
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(std::to_integer<unsigned>(stored[i / 8]) >> (i % 8) & 1U);
  }
}

/// A chunk with nulls, as Columns::with_nulls describes it.
void decode_nulls(const std::string& text, DType dtype, std::span<const std::byte> stored, std::span<std::byte> out) {
  std::istringstream words(text);
  std::string word, fill, codec;
  std::size_t validity_begin = 0, validity_bytes = 0, data_begin = 0, data_bytes = 0;
  words >> word >> validity_begin >> validity_bytes >> data_begin >> data_bytes >> fill;
  std::getline(words >> std::ws, codec);
  decode_values(codec, stored.subspan(data_begin, data_bytes), out);
  const std::vector<std::byte> element = parse_element(fill, dtype);
  std::vector<std::byte> valid(out.size() / element.size());
  // Validity is stored as booleans are.
  decode_values(cat(codec.substr(0, codec.find(' ')), " bits"), stored.subspan(validity_begin, validity_bytes), valid);
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == std::byte{0}) std::memcpy(out.data() + i * element.size(), element.data(), element.size());
  }
}

void decode(const Encoding& encoding, const Piece&, DType dtype, std::span<const std::byte> stored,
            std::span<std::byte> out) {
  if (encoding.codec.starts_with("nulls ")) {
    decode_nulls(encoding.codec, dtype, stored, out);
  } else {
    decode_values(encoding.codec, stored, out);
  }
}

}  // namespace

extern const Format arrow_format;
const Format arrow_format{"arrow", {".arrow", ".feather", ".ipc"}, recognise, discover, decode};

}  // namespace loadstone
