// Zarr stores in folders, versions 2 and 3, read only. A chunk is a file, or an inner chunk of a file (a shard); which
// are there is asked of the folders' listings and the shards' indexes, once, in discovery.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/array/parse_element.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/zarr_chunks.h"
#include "loadstone/format/zarr_codecs.h"
#include "loadstone/format/zarr_metadata.h"
#include "loadstone/format/zarr_sharding.h"
#include "loadstone/format/zarr_store.h"

namespace loadstone {

namespace {

using namespace zarr;

// Those that are there take 44 bytes each in a catalog, and their names.
constexpr std::int64_t kMaxChunks = std::int64_t{1} << 27;

bool recognise(std::span<const std::byte>) {
  return false;  // a store is a folder
}

/// Chunks along each dimension. None in an array without elements.
Dims counts_of(const Shape& shape, const Shape& chunk) {
  Dims out = Dims::filled(shape.size(), 0);
  std::int64_t chunks = 1;
  for (int d = 0; d < shape.size(); ++d) {
    out[d] = ceil_div(shape[d], chunk[d]);
    const auto product = checked_mul(chunks, std::max<std::int64_t>(out[d], 1));
    if (!product || *product > kMaxChunks) throw data_error(cat("has more than ", kMaxChunks, " chunks"));
    chunks = *product;
  }
  return out;
}

std::int64_t chunk_bytes_of(const Shape& chunk, DType dtype) {
  std::int64_t out = dtype.itemsize();
  for (const std::int64_t side : chunk) {
    const auto product = checked_mul(out, side);
    if (!product) throw data_error(cat("chunks of ", to_string(chunk), " have more than 2^63-1 bytes"));
    out = *product;
  }
  return out;
}

/// One array being described.
class Describer {
 public:
  Describer(std::string folder, const Metadata& data, ByteSourceFactory& sources, const ReadHints& hints,
            FileTable& files)
      : folder_(std::move(folder)), data_(data), sources_(sources), hints_(hints), files_(files) {}

  Header describe() {
    if (data_.chunk.size() != data_.shape.size()) throw data_error("chunks and shape differ in their dimensions");
    if (data_.separator != "." && data_.separator != "/")
      throw data_error(cat("the separator is ", in_quotes(data_.separator)));
    header_.dtype = data_.type.dtype;
    header_.shape = data_.shape;
    header_.fill = hints_.fill && data_.fill.empty() ? parse_element(*hints_.fill, header_.dtype) : data_.fill;
    header_.note = data_.note;
    grid_.chunk_shape = data_.sharding ? data_.sharding->chunk : data_.chunk;
    grid_.sparse = true;
    counts_ = counts_of(data_.shape, grid_.chunk_shape);
    set_encoding(data_.sharding ? data_.sharding->chain : data_.chain);
    chunk_bytes_of(data_.chunk, header_.dtype);
    chunk_bytes_ = chunk_bytes_of(grid_.chunk_shape, header_.dtype);
    const Dims file_counts = counts_of(data_.shape, data_.chunk);
    if (std::find(data_.shape.begin(), data_.shape.end(), 0) == data_.shape.end()) {
      for (const ChunkFile& file : list_chunks(folder_, data_, file_counts)) {
        add_file(chunk_index(file.number, file_counts), file);
      }
    }
    if (data_.sharding) sort_grid();
    finish();
    return std::move(header_);
  }

 private:
  void set_encoding(const Chain& chain) {
    if (is_plain(chain)) {
      header_.byte_order = chain.big ? ByteOrder::big : ByteOrder::little;
      header_.order = is_c_order(chain.dims) ? ElementOrder::c : ElementOrder::f;
    } else {
      header_.encoding = Encoding{"zarr", to_text(chain)};
    }
  }

  void add_file(const Dims& index, const ChunkFile& file) {
    const std::string path = chunk_path(folder_, data_, index);
    const std::int32_t number = files_.add(path, file.stamp);
    try {
      if (data_.sharding) {
        add_shard(index, number, path);
      } else {
        add_chunk(file.number, number, 0, file.stamp.size_bytes);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data || !error.facts().file.empty()) throw;
      throw as_file_error(path, error);
    }
  }

  void add_chunk(std::int64_t number, std::int32_t file, std::int64_t offset, std::int64_t stored) {
    if (!header_.encoding && stored != chunk_bytes_) {
      throw data_error(cat("a chunk has ", stored, " bytes: expected ", chunk_bytes_),
                       {{}, cat(chunk_bytes_, " bytes"), cat(stored, " bytes"), 0});
    }
    // No codec packs better than this (bzip2 comes near it), so that no buffer is made for a size that is only claimed.
    constexpr std::int64_t kBestRatio = std::int64_t{1} << 21;
    if (stored < chunk_bytes_ / kBestRatio) {
      throw data_error(cat("a chunk of ", stored, " stored bytes cannot hold the ", chunk_bytes_, " bytes expected"));
    }
    grid_.numbers.push_back(number);
    grid_.offsets.push_back(offset);
    grid_.stored_bytes.push_back(stored);
    grid_.files.push_back(file);
  }

  /// The inner chunks of a shard that lie in the array.
  void add_shard(const Dims& index, std::int32_t file, const std::string& path) {
    const Shape& inner = grid_.chunk_shape;
    Dims in_shard = Dims::filled(inner.size(), 0);
    std::int64_t count = 1;
    for (int d = 0; d < inner.size(); ++d) {
      in_shard[d] = data_.chunk[d] / inner[d];
      const auto product = checked_mul(count, in_shard[d]);
      if (!product || *product > kMaxChunks) throw data_error(cat("a shard of more than ", kMaxChunks, " chunks"));
      count = *product;
    }
    const std::vector<InnerChunk> chunks = read_shard_index(*sources_.open(path), *data_.sharding, count);
    for (std::int64_t k = 0; k < count; ++k) {
      const InnerChunk& chunk = chunks[static_cast<std::size_t>(k)];
      if (chunk.offset_bytes < 0) continue;
      const Dims at = chunk_index(k, in_shard);
      std::int64_t number = 0;
      bool inside = true;
      for (int d = 0; d < inner.size(); ++d) {
        const std::int64_t coordinate = index[d] * in_shard[d] + at[d];
        inside = inside && coordinate < counts_[d];
        number = number * counts_[d] + coordinate;
      }
      if (inside) add_chunk(number, file, chunk.offset_bytes, chunk.stored_bytes);
    }
  }

  /// Inner chunks were found shard by shard.
  void sort_grid() {
    std::vector<std::size_t> order(grid_.numbers.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return grid_.numbers[a] < grid_.numbers[b]; });
    const auto arrange = [&order](auto& list) {
      auto sorted = list;
      for (std::size_t k = 0; k < order.size(); ++k) sorted[k] = list[order[k]];
      list = std::move(sorted);
    };
    arrange(grid_.numbers);
    arrange(grid_.offsets);
    arrange(grid_.stored_bytes);
    arrange(grid_.files);
  }

  /// The file that an absent chunk would be in.
  std::string path_of(std::int64_t number) const {
    Dims index = chunk_index(number, counts_);
    for (int d = 0; d < index.size(); ++d) index[d] = index[d] * grid_.chunk_shape[d] / data_.chunk[d];
    return chunk_path(folder_, data_, index);
  }

  void finish() {
    std::int64_t chunks = 1;
    for (const std::int64_t count : counts_) chunks *= count;
    const std::int64_t absent = chunks - static_cast<std::int64_t>(grid_.numbers.size());
    if (absent > 0) {
      std::int64_t first = 0;
      while (static_cast<std::size_t>(first) < grid_.numbers.size() &&
             grid_.numbers[static_cast<std::size_t>(first)] == first) {
        ++first;
      }
      if (hints_.strict) throw file_error(path_of(first), "the chunk is absent (--strict)");
      if (header_.fill.empty()) {
        throw file_error(path_of(first), "the chunk is absent and the array has no fill value: give --fill");
      }
      header_.note += cat(header_.note.empty() ? "" : "; ", absent, " of ", chunks,
                          data_.sharding ? " inner chunks" : " chunks", " are absent: they hold the fill value");
    }
    if (!data_.shape.empty()) {
      header_.grid = std::move(grid_);
    } else if (absent > 0) {
      header_.encoding = Encoding{"zarr", to_text({{}, false, {}, header_.fill}), true};
      header_.stored_bytes = 0;
    } else {
      header_.file = grid_.files[0];
      header_.offset_bytes = grid_.offsets[0];
      header_.stored_bytes = grid_.stored_bytes[0];
    }
  }

  std::string folder_;
  const Metadata& data_;
  ByteSourceFactory& sources_;
  const ReadHints& hints_;
  FileTable& files_;
  Header header_;
  ChunkGrid grid_;
  Dims counts_;
  std::int64_t chunk_bytes_ = 0;
};

/// Runs fn; its errors about the data get the name of the metadata file when they have none.
template <typename Fn>
auto naming(const std::string& file, Fn fn) {
  try {
    return fn();
  } catch (const Error& error) {
    const bool named = error.kind() == ErrorKind::data || error.kind() == ErrorKind::usage;
    if (!named || !error.facts().file.empty()) throw;
    throw as_file_error(file, error);
  }
}

Header describe(const Found& array, const Metadata& data, ByteSourceFactory& sources, const ReadHints& hints,
                FileTable& files) {
  Header out = naming(array.file, [&] { return Describer(array.folder, data, sources, hints, files).describe(); });
  if (data.shape.empty() && out.file < 0) {  // nothing but a fill value: the metadata is its file
    out.file = files.add(array.file, sources.open(array.file)->stamp());
  }
  out.name = array.name;
  return out;
}

std::vector<Header> discover_store(const std::string& folder, ByteSourceFactory& sources, const ReadHints& hints,
                                   FileTable& files) {
  const std::vector<Found> found = find_arrays(folder, sources);
  if (found.empty()) throw file_error(folder, "is a zarr group without arrays");
  std::vector<std::string> names;
  for (const Found& each : found) names.push_back(each.name);
  const bool unnamed = names.size() == 1 && names[0].empty();
  if (!unnamed) require_arrays(folder, hints.arrays, names);
  std::vector<Header> out;
  std::string left_out;
  for (const Found& each : found) {
    if (!unnamed && !is_wanted(hints.arrays, each.name)) continue;
    const Json json = load_array(each, sources);
    Metadata data;
    try {
      data = naming(each.file, [&] { return each.v3 ? read_v3(json, hints) : read_v2(json, hints); });
    } catch (const Error& error) {
      // Text and times lie beside numbers in real stores; what was asked for by name must load.
      if (error.kind() != ErrorKind::data || !hints.arrays.empty() || found.size() == 1) throw;
      left_out += cat(left_out.empty() ? "left out: " : "; ", error.message());
      continue;
    }
    out.push_back(describe(each, data, sources, hints, files));
  }
  if (out.empty()) throw file_error(folder, cat("no array can be loaded; ", left_out));
  if (!left_out.empty()) out[0].note += cat(out[0].note.empty() ? "" : "; ", left_out);
  return out;
}

void decode(const Encoding& encoding, const Piece& piece, DType dtype, std::span<const std::byte> stored,
            std::span<std::byte> out) {
  // A worker meets the same chain again and again.
  thread_local std::string last_text;
  thread_local Chain last;
  if (last_text != encoding.codec) {
    last = parse_chain(encoding.codec);
    last_text = encoding.codec;
  }
  decode_chunk(last, piece.stored_shape, dtype, stored, out);
}

std::vector<Header> discover(ByteSource& source, const ReadHints&) {
  throw file_error(source.path(), "is a file: a zarr store is a folder");
}

}  // namespace

extern const Format zarr_format;
const Format zarr_format{"zarr", {}, recognise, discover, decode, true, is_store, discover_store};

}  // namespace loadstone
