#include "loadstone/format/hdf5_describe.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/hdf5_filters.h"
#include "loadstone/format/hdf5_open.h"
#include "loadstone/format/hdf5_sources.h"
#include "loadstone/format/hdf5_types.h"

namespace loadstone::hdf5 {

namespace {

constexpr std::int64_t kSlabBytes = 8LL << 20;   // read at a time where libhdf5 reads
constexpr std::int64_t kMaxChunks = 16LL << 20;  // of a grid

/// One dataset being described. The mutex is held while it lives.
class Describer {
 public:
  Describer(const Library& lib, ByteSource& source, const ReadHints& hints, std::string name, hid_t dataset)
      : lib_(lib),
        path_(source.path()),
        size_(source.stamp().size_bytes),
        hints_(hints),
        name_(std::move(name)),
        dataset_(dataset),
        type_(lib.H5Dget_type(dataset), lib.H5Tclose),
        plist_(lib.H5Dget_create_plist(dataset), lib.H5Pclose) {}

  Header describe() {
    if (!type_.good() || !plist_.good()) throw library_error(lib_, path_, cat(title(), " cannot be read"));
    header_.name = name_;
    set_type();
    set_shape();
    if (num_elems(header_.shape) == 0) return std::move(header_);
    const int layout = lib_.H5Pget_layout(plist_.get());
    std::array<char, 4096> file{};
    lib_.H5Fget_name(dataset_, file.data(), file.size());
    if (path_ != file.data()) {
      // Its offsets and sources are those of the other file.
      if (layout == kVirtual || lib_.H5Pget_external_count(plist_.get()) > 0) {
        fail(cat("lies in ", in_quotes(file.data()),
                 " by an external link and is virtual or external there, which is not "
                 "supported: name that file"));
      }
      by_library(cat("an external link to ", in_quotes(file.data())));
      return std::move(header_);
    }
    switch (layout) {
      case kContiguous: contiguous(); break;
      case kChunked: chunked(); break;
      case kVirtual:
        check_virtual_sources(lib_, plist_.get(), path_, title());
        by_library("a virtual dataset");
        break;
      case kCompact: by_library(""); break;
      default: fail("has a layout that is not known");
    }
    return std::move(header_);
  }

 private:
  std::string title() const { return cat("dataset '", printable(name_), "'"); }
  [[noreturn]] void fail(std::string_view what) const { throw file_error(path_, cat(title(), " ", what)); }

  void set_type() {
    ElementType type = element_type(lib_, type_.get());
    if (!type.element && type.lost && hints_.dtype && hints_.dtype->dtype.whole_bytes() &&
        hints_.dtype->dtype.itemsize() == type.size_bytes) {
      type.element = hints_.dtype;
    } else if (!type.element) {
      fail(cat("has ", type.what, ", which cannot be placed",
               type.lost
                   ? ": say what it is with --dtype NAME of as many bytes (h5py stores bfloat16 as 2 opaque bytes)"
                   : ""));
    } else if (hints_.dtype && hints_.dtype->dtype != type.element->dtype) {
      throw file_usage_error(path_, cat(title(), " is ", to_string(type.element->dtype), ", not ",
                                        to_string(hints_.dtype->dtype), ": loading does not cast"));
    }
    header_.dtype = type.element->dtype;
    header_.byte_order = type.element->order;
    swap_ = type.element->order == ByteOrder::big ? type.element->dtype.swap_bytes() : 1;
    inner_ = type.inner;
  }

  void set_shape() {
    const Id space(lib_.H5Dget_space(dataset_), lib_.H5Sclose);
    const int kind = lib_.H5Sget_simple_extent_type(space.get());
    if (kind == kSpaceNull) fail("has a null dataspace: it is empty and has no shape");
    const int ndims = lib_.H5Sget_simple_extent_ndims(space.get());
    if (kind < 0 || ndims < 0) throw library_error(lib_, path_, cat(title(), ": the dataspace cannot be read"));
    std::vector<hsize_t> dims(static_cast<std::size_t>(ndims) + 1);
    if (kind == kSpaceSimple) lib_.H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    for (int d = 0; d < ndims; ++d) header_.shape.push_back(extent(dims[static_cast<std::size_t>(d)]));
    rank_ = ndims;
    for (const std::int64_t d : inner_) header_.shape.push_back(d);
    nbytes_ = header_.dtype.itemsize();
    for (const std::int64_t d : header_.shape) {
      const auto product = checked_mul(nbytes_, std::max<std::int64_t>(d, 1));
      if (!product) fail(cat("has a shape of more than 2^63-1 bytes: ", to_string(header_.shape)));
      nbytes_ = *product;
    }
  }

  std::int64_t extent(hsize_t value) const {
    if (value > static_cast<hsize_t>(INT64_MAX)) fail("has a dimension of more than 2^63-1");
    return static_cast<std::int64_t>(value);
  }

  void contiguous() {
    if (lib_.H5Pget_external_count(plist_.get()) > 0) {
      check_external_files(lib_, plist_.get(), path_, title(), nbytes_);
      by_library("external raw files");
      return;
    }
    const haddr_t offset = lib_.H5Dget_offset(dataset_);
    if (offset == kUndefined) {
      if (header_.shape.empty() || !inner_.empty()) {
        by_library("");
        return;
      }
      read_fill();
      ChunkGrid grid;
      grid.chunk_shape = header_.shape;
      grid.sparse = true;
      header_.grid = std::move(grid);
      note_absent(1, 1);
      return;
    }
    check_range(offset, static_cast<hsize_t>(nbytes_));
    header_.offset_bytes = static_cast<std::int64_t>(offset);
  }

  void check_range(haddr_t offset, hsize_t bytes) const {
    const auto size = static_cast<hsize_t>(size_);
    if (bytes > size || offset > size - bytes) {
      fail(cat("is truncated: expected ", bytes, " bytes at offset ", offset, ", found a file of ", size_));
    }
  }

  // Chunks.

  struct Filters {
    std::vector<std::string> words;  ///< as undo_filters reads them
    std::string foreign;             ///< what only libhdf5 can undo, or ""
  };

  Filters filters() const {
    static constexpr std::array<std::pair<int, const char*>, 9> kNames{{{4, "szip"},
                                                                        {5, "nbit"},
                                                                        {6, "scale-offset"},
                                                                        {307, "bzip2"},
                                                                        {32000, "lzf"},
                                                                        {32001, "blosc"},
                                                                        {32004, "lz4"},
                                                                        {32008, "bitshuffle"},
                                                                        {32015, "zstd"}}};
    Filters out;
    const int count = lib_.H5Pget_nfilters(plist_.get());
    for (int k = 0; k < count; ++k) {
      unsigned flags = 0, config = 0;
      std::array<unsigned, 32> values{};
      std::array<char, 128> text{};
      std::size_t num_values = values.size();
      const int id = lib_.H5Pget_filter2(plist_.get(), static_cast<unsigned>(k), &flags, &num_values, values.data(),
                                         text.size() - 1, text.data(), &config);
      const std::string word = filter_word(id, std::span(values).first(std::min(num_values, values.size())));
      if (!word.empty()) out.words.push_back(word);
      if (!word.empty() && lib_.chunk_iter != nullptr) continue;
      std::string name = printable(text.data());
      for (const auto& [number, known] : kNames) {
        if (number == id) name = known;
      }
      if (lib_.H5Zfilter_avail(id) <= 0) {
        fail(cat("uses filter ", id, " (", name.empty() ? "no name" : name, "), which is not available: ",
                 word.empty() ? "" : "without libhdf5 1.14.4 or newer (pip install h5py) it takes a plugin; ",
                 "libhdf5 ", lib_.version, " finds plugins in HDF5_PLUGIN_PATH (pip install hdf5plugin has many)"));
      }
      if (word.empty()) out.foreign = cat("filter ", id, " (", name, ")");
    }
    return out;
  }

  struct Chunk {
    std::vector<hsize_t> offset;
    unsigned mask;
    haddr_t addr;
    hsize_t size;
  };
  struct Chunks {
    int rank = 0;
    std::size_t limit = 0;
    std::vector<Chunk> list;
  };

  Chunks allocated_chunks(std::int64_t limit) const {
    Chunks out{rank_, static_cast<std::size_t>(limit), {}};
    const ChunkFn keep = [](const hsize_t* offset, unsigned mask, haddr_t addr, hsize_t size, void* data) -> int {
      auto* chunks = static_cast<Chunks*>(data);
      if (chunks->list.size() >= chunks->limit) return -1;
      chunks->list.push_back({{offset, offset + chunks->rank}, mask, addr, size});
      return 0;
    };
    if (lib_.chunk_iter(dataset_, 0, keep, &out) < 0) {
      throw library_error(lib_, path_, cat(title(), ": the index of its chunks cannot be read"));
    }
    return out;
  }

  void chunked() {
    std::array<hsize_t, 33> dims{};
    if (lib_.H5Pget_chunk(plist_.get(), 32, dims.data()) != rank_) fail("has chunks of another number of dimensions");
    Shape chunk, counts;
    std::int64_t num_chunks = 1, chunk_bytes = header_.dtype.itemsize();
    for (int d = 0; d < header_.shape.size(); ++d) {
      const std::int64_t side = d < rank_ ? extent(dims[static_cast<std::size_t>(d)]) : header_.shape[d];
      if (side < 1) fail("has chunks of no size");
      chunk.push_back(side);
      counts.push_back(header_.shape[d] / side + (header_.shape[d] % side != 0 ? 1 : 0));
      const auto n = checked_mul(num_chunks, counts[d]), bytes = checked_mul(chunk_bytes, side);
      if (!n || !bytes || *n > kMaxChunks) fail(cat("has more than ", kMaxChunks, " chunks"));
      num_chunks = *n;
      chunk_bytes = *bytes;
    }
    const Filters filters = this->filters();
    unsigned options = 0;
    lib_.H5Pget_chunk_opts(plist_.get(), &options);
    if (lib_.chunk_iter == nullptr || !filters.foreign.empty() || !inner_.empty() ||
        ((options & kPartialChunksPlain) != 0 && !filters.words.empty())) {
      by_library(!filters.foreign.empty()     ? filters.foreign
                 : lib_.chunk_iter == nullptr ? cat("chunks (libhdf5 ", lib_.version, " does not tell where they lie)")
                                              : "chunks of an unusual kind",
                 &chunk, &counts);
      return;
    }
    read_fill();
    fill_grid(chunk, counts, chunk_bytes, filters);
  }

  /// The chunks that are allocated, as a sparse grid; their filter masks in its order.
  std::vector<unsigned> list_chunks(ChunkGrid& grid, const Shape& counts, const Shape& chunk) {
    std::int64_t num_chunks = 1;
    for (const std::int64_t count : counts) num_chunks *= count;
    const Chunks found = allocated_chunks(num_chunks);
    std::vector<std::pair<std::int64_t, const Chunk*>> order;
    for (const Chunk& c : found.list) order.emplace_back(chunk_number(c, chunk, counts), &c);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<unsigned> masks;
    grid.chunk_shape = chunk;
    grid.sparse = true;
    for (const auto& [number, c] : order) {
      if (!grid.numbers.empty() && grid.numbers.back() == number) fail(cat("lists chunk ", number, " twice"));
      check_range(c->addr, c->size);
      grid.numbers.push_back(number);
      grid.offsets.push_back(static_cast<std::int64_t>(c->addr));
      grid.stored_bytes.push_back(static_cast<std::int64_t>(c->size));
      masks.push_back(c->mask);
    }
    const std::int64_t absent = num_chunks - static_cast<std::int64_t>(order.size());
    if (absent > 0) note_absent(absent, num_chunks);
    return masks;
  }

  void fill_grid(const Shape& chunk, const Shape& counts, std::int64_t chunk_bytes, const Filters& filters) {
    ChunkGrid grid;
    const std::vector<unsigned> masks = list_chunks(grid, counts, chunk);
    const bool uniform = std::all_of(masks.begin(), masks.end(), [](unsigned mask) { return mask == 0; });
    std::vector<unsigned> known;
    for (std::size_t k = 0; k < masks.size(); ++k) {
      const std::string chain = chain_of(filters, masks[k]);
      const std::int64_t stored = grid.stored_bytes[k];
      // No codec packs better than two million to one, so that no buffer is made for a size that is only claimed.
      if (chain.empty() ? stored != chunk_bytes : stored < chunk_bytes / (1 << 21)) {
        fail(cat("has a chunk of ", stored, " stored bytes for ", chunk_bytes, " bytes of elements"));
      }
      if (uniform) continue;
      grid.chunk_encodings.push_back(chain.empty() ? -1 : encoding_of(chain, masks[k], known));
    }
    const std::string chain = chain_of(filters, 0);
    if (uniform && !chain.empty()) header_.encoding = own_encoding(chain);
    header_.grid = std::move(grid);
  }

  std::int64_t chunk_number(const Chunk& c, const Shape& chunk, const Shape& counts) const {
    std::int64_t number = 0;
    for (int d = 0; d < rank_; ++d) {
      const auto side = static_cast<hsize_t>(chunk[d]);
      const hsize_t at = c.offset[static_cast<std::size_t>(d)];
      if (at % side != 0 || at / side >= static_cast<hsize_t>(counts[d])) fail("has a chunk outside its extent");
      number = number * counts[d] + static_cast<std::int64_t>(at / side);
    }
    return number;
  }

  /// The filters that were applied: bit k of the mask says that filter k was skipped.
  static std::string chain_of(const Filters& filters, unsigned mask) {
    std::string out;
    for (std::size_t k = 0; k < filters.words.size(); ++k) {
      if (k < 32 && (mask >> k & 1U) != 0) continue;
      out += cat(out.empty() ? "" : " ", filters.words[k]);
    }
    return out;
  }

  Encoding own_encoding(const std::string& chain) const { return {"hdf5", cat("own ", swap_, " ", chain)}; }

  std::int32_t encoding_of(const std::string& chain, unsigned mask, std::vector<unsigned>& masks) {
    const auto it = std::find(masks.begin(), masks.end(), mask);
    const auto index = static_cast<std::int32_t>(it - masks.begin());
    if (it == masks.end()) {
      masks.push_back(mask);
      header_.chunk_encodings.push_back(own_encoding(chain));
    }
    return index;
  }

  void read_fill() {
    int defined = 0;
    if (lib_.H5Pfill_value_defined(plist_.get(), &defined) < 0 || defined == 0) return;
    header_.fill.resize(static_cast<std::size_t>(header_.dtype.itemsize()));
    if (lib_.H5Pget_fill_value(plist_.get(), type_.get(), header_.fill.data()) < 0) {
      throw library_error(lib_, path_, cat(title(), ": the fill value cannot be read"));
    }
    if (swap_ > 1) swap_in_place(header_.fill.data(), header_.dtype.itemsize(), swap_);
  }

  void note_absent(std::int64_t absent, std::int64_t all) {
    const std::string text = cat(title(), ": ", absent, " of ", all, " chunks are not allocated");
    if (hints_.strict) throw file_error(path_, cat(text, " (--strict)"));
    add_note(cat(text, " and hold the fill value"));
  }
  void add_note(const std::string& text) { header_.note += cat(header_.note.empty() ? "" : "; ", text); }

  // What libhdf5 itself reads, box by box under the lock. The offset of such a piece is the number of its box, its
  // stored bytes are what libhdf5 reads for it: those of the chunk, or of its elements.

  void by_library(const std::string& why, const Shape* chunk = nullptr, const Shape* counts = nullptr) {
    header_.encoding = Encoding{"hdf5", cat("lib ", swap_, " ", name_, std::string(1, '\0'), path_), true};
    header_.stored_bytes = nbytes_;
    if (!why.empty()) add_note(cat(title(), ": ", why, ", read by libhdf5, one box at a time"));
    if (header_.shape.empty()) return;
    ChunkGrid grid;
    if (chunk == nullptr || !box_chunks(grid, *chunk, *counts)) {
      const std::int64_t rows = header_.shape[0], row_bytes = nbytes_ / rows;
      const std::int64_t most = std::max<std::int64_t>(std::min<std::int64_t>(size_, 1 << 20), 1);
      grid.chunk_shape = header_.shape;
      grid.chunk_shape[0] = std::min(
          rows, std::max({std::int64_t{1}, kSlabBytes / std::max<std::int64_t>(row_bytes, 1), rows / most + 1}));
      for (std::int64_t row = 0; row < rows; row += grid.chunk_shape[0]) {
        grid.offsets.push_back(row / grid.chunk_shape[0]);
        grid.stored_bytes.push_back(std::min(rows - row, grid.chunk_shape[0]) * row_bytes);
      }
    }
    header_.grid = std::move(grid);
  }

  /// Boxes that are chunks. False when they are too many to list.
  bool box_chunks(ChunkGrid& grid, const Shape& chunk, const Shape& counts) {
    std::int64_t num_chunks = 1;
    for (const std::int64_t count : counts) num_chunks *= count;
    if (lib_.chunk_iter != nullptr && inner_.empty()) {
      read_fill();
      list_chunks(grid, counts, chunk);
      grid.offsets = grid.numbers;
      return true;
    }
    if (num_chunks > size_) return false;
    // Their sizes are not known one by one.
    const hsize_t stored = std::min<hsize_t>(lib_.H5Dget_storage_size(dataset_), static_cast<hsize_t>(size_));
    grid.chunk_shape = chunk;
    grid.stored_bytes.assign(static_cast<std::size_t>(num_chunks),
                             ceil_div(static_cast<std::int64_t>(stored), num_chunks));
    for (std::int64_t k = 0; k < num_chunks; ++k) grid.offsets.push_back(k);
    return true;
  }

  const Library& lib_;
  std::string path_;
  std::int64_t size_;
  const ReadHints& hints_;
  std::string name_;
  hid_t dataset_;
  Id type_;
  Id plist_;
  Header header_;
  Shape inner_;
  int rank_ = 0;
  std::int64_t nbytes_ = 0;
  std::int64_t swap_ = 1;
};

}  // namespace

Header describe_dataset(const Library& lib, ByteSource& source, const ReadHints& hints, const std::string& name,
                        hid_t dataset) {
  return Describer(lib, source, hints, name, dataset).describe();
}

}  // namespace loadstone::hdf5
