#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/text.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/hdf5_filters.h"
#include "loadstone/format/hdf5_library.h"
#include "loadstone/format/hdf5_types.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

using namespace hdf5;
using std::string_view_literals::operator""sv;

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n"sv;
constexpr std::int64_t kSlabBytes = 8LL << 20;   // read at a time where libhdf5 reads
constexpr std::int64_t kMaxChunks = 16LL << 20;  // of a grid; their table takes 16 bytes each
constexpr int kMaxDepth = 32;                    // of groups
constexpr std::size_t kMaxNames = 100'000;

bool recognise(std::span<const std::byte> head) {
  return std::string_view(reinterpret_cast<const char*>(head.data()), head.size()).starts_with(kSignature);
}

/// The signature may lie behind a user block of 512, 1024, 2048, … bytes.
bool recognise_inside(ByteSource& source) {
  std::array<std::byte, 8> head{};
  for (std::int64_t at = 512; at + 8 <= source.stamp().size_bytes; at *= 2) {
    source.read(at, head);
    if (recognise(head)) return true;
  }
  return false;
}

/// An error of libhdf5 about a file. Words of versions mean that the file is newer than the library.
Error library_error(const Library& lib, std::string_view path, std::string_view what) {
  const std::string said = last_error(lib);
  const bool newer = said.find("version") != std::string::npos;
  return file_error(path, cat(what, ": ", said,
                              newer ? cat(" (it needs a newer libhdf5 than this ", lib.version, " at '", lib.path,
                                          "', or is damaged; install a newer h5py, or name one in "
                                          "LOADSTONE_HDF5_LIBRARY)")
                                    : std::string()));
}

hid_t open_file(const Library& lib, const std::string& path) {
  // Kept for good: closing a list clears the error that the caller is going to ask for.
  static const hid_t kAccess = lib.H5Pcreate(lib.file_access_class);
  lib.H5Pset_file_locking(kAccess, false, true);
  return lib.H5Fopen(path.c_str(), 0, kAccess);
}

hid_t open_dataset(const Library& lib, hid_t file, const std::string& name) {
  static const hid_t kAccess = lib.H5Pcreate(lib.dataset_access_class);
  lib.H5Pset_efile_prefix(kAccess, "${ORIGIN}");
  return lib.H5Dopen2(file, name.c_str(), kAccess);
}

/// Adds the names of all datasets below a group; `path` is its name with a slash behind, "" for the root.
void list_datasets(const Library& lib, hid_t group, const std::string& path, int depth, std::vector<std::string>& out) {
  std::vector<std::string> links;
  const LinkFn keep = [](hid_t, const char* name, const void*, void* data) -> herr_t {
    auto* names = static_cast<std::vector<std::string>*>(data);
    names->emplace_back(name);
    return names->size() < kMaxNames ? 0 : 1;
  };
  hsize_t index = 0;
  if (lib.literate(group, 0, 0, &index, keep, &links) < 0) return;
  for (const std::string& link : links) {
    const Id object(lib.H5Oopen(group, link.c_str(), 0), lib.H5Oclose);
    if (!object.good()) {
      // A link that leads nowhere is passed over; an object that this library does not know must not be.
      if (const std::string said = last_error(lib); said.find("version") != std::string::npos)
        out.push_back(path + link);
      continue;
    }
    if (out.size() >= kMaxNames) return;
    const int type = lib.H5Iget_type(object.get());
    if (type == kObjectDataset) out.push_back(path + link);
    if (type == kObjectGroup && depth < kMaxDepth) {
      list_datasets(lib, object.get(), cat(path, link, "/"), depth + 1, out);
    }
  }
}

std::vector<std::string> datasets_of(const Library& lib, hid_t file) {
  std::vector<std::string> out;
  const Id root(lib.H5Oopen(file, "/", 0), lib.H5Oclose);
  if (root.good()) list_datasets(lib, root.get(), "", 0, out);
  return out;
}

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
        check_virtual_sources();
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
      check_external_files();
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
    int deflates = 0, shuffles = 0;
    for (int k = 0; k < count; ++k) {
      unsigned flags = 0, config = 0;
      std::array<unsigned, 32> values{};
      std::array<char, 128> text{};
      std::size_t num_values = values.size();
      const int id = lib_.H5Pget_filter2(plist_.get(), static_cast<unsigned>(k), &flags, &num_values, values.data(),
                                         text.size() - 1, text.data(), &config);
      if (id == 1) {
        out.words.emplace_back("deflate");
        ++deflates;
      } else if (id == 2 && num_values > 0 && values[0] > 0) {
        out.words.push_back(cat("shuffle:", values[0]));
        ++shuffles;
      } else if (id == 3) {
        out.words.emplace_back("fletcher32");
      } else {
        std::string name = printable(text.data());
        for (const auto& [number, known] : kNames) {
          if (number == id) name = known;
        }
        if (lib_.H5Zfilter_avail(id) <= 0) {
          fail(cat("uses filter ", id, " (", name.empty() ? "no name" : name, "), which is not available: libhdf5 ",
                   lib_.version, " finds plugins in HDF5_PLUGIN_PATH (pip install hdf5plugin has many)"));
        }
        out.foreign = cat("filter ", id, " (", name, ")");
      }
    }
    if (deflates > 1 || shuffles > 1) out.foreign = "a filter applied twice";
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
                 &chunk, num_chunks);
      return;
    }
    read_fill();
    fill_grid(chunk, counts, num_chunks, chunk_bytes, filters);
  }

  void fill_grid(const Shape& chunk, const Shape& counts, std::int64_t num_chunks, std::int64_t chunk_bytes,
                 const Filters& filters) {
    const Chunks found = allocated_chunks(num_chunks);
    ChunkGrid grid;
    grid.chunk_shape = chunk;
    grid.offsets.assign(static_cast<std::size_t>(num_chunks), -1);
    grid.stored_bytes.assign(static_cast<std::size_t>(num_chunks), 0);
    std::vector<unsigned> masks;
    const bool uniform = std::all_of(found.list.begin(), found.list.end(), [](const Chunk& c) { return c.mask == 0; });
    if (!uniform) grid.chunk_encodings.assign(static_cast<std::size_t>(num_chunks), -1);
    std::int64_t allocated = 0;
    for (const Chunk& c : found.list) {
      std::int64_t number = 0;
      for (int d = 0; d < rank_; ++d) {
        const auto side = static_cast<hsize_t>(chunk[d]);
        const hsize_t at = c.offset[static_cast<std::size_t>(d)];
        if (at % side != 0 || at / side >= static_cast<hsize_t>(counts[d])) fail("has a chunk outside its extent");
        number = number * counts[d] + static_cast<std::int64_t>(at / side);
      }
      check_range(c.addr, c.size);
      const std::string chain = chain_of(filters, c.mask);
      if (chain.empty() && static_cast<std::int64_t>(c.size) != chunk_bytes) {
        fail(cat("has a chunk of ", c.size, " bytes where ", chunk_bytes, " are expected"));
      }
      const auto k = static_cast<std::size_t>(number);
      if (grid.offsets[k] < 0) ++allocated;
      grid.offsets[k] = static_cast<std::int64_t>(c.addr);
      grid.stored_bytes[k] = static_cast<std::int64_t>(c.size);
      if (!uniform && !chain.empty()) grid.chunk_encodings[k] = encoding_of(chain, c.mask, masks);
    }
    const std::string chain = chain_of(filters, 0);
    if (uniform && !chain.empty()) header_.encoding = own_encoding(chain);
    header_.grid = std::move(grid);
    if (allocated < num_chunks) note_absent(num_chunks - allocated, num_chunks);
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

  // What libhdf5 itself reads, box by box under the lock. Such a piece has no bytes of its own; its offset is the
  // number of its box.

  void by_library(const std::string& why, const Shape* chunk = nullptr, std::int64_t num_chunks = 0) {
    header_.encoding = Encoding{"hdf5", cat("lib ", swap_, " ", name_, std::string(1, '\0'), path_)};
    header_.stored_bytes = 0;
    if (!why.empty()) add_note(cat(title(), ": ", why, ", read by libhdf5, one box at a time"));
    if (header_.shape.empty()) return;
    ChunkGrid grid;
    if (chunk != nullptr && num_chunks <= size_) {
      grid.chunk_shape = *chunk;
    } else {
      const std::int64_t rows = header_.shape[0], row_bytes = nbytes_ / rows;
      const std::int64_t most = std::max<std::int64_t>(std::min<std::int64_t>(size_, 1 << 20), 1);
      grid.chunk_shape = header_.shape;
      grid.chunk_shape[0] = std::min(
          rows, std::max({std::int64_t{1}, kSlabBytes / std::max<std::int64_t>(row_bytes, 1), rows / most + 1}));
      num_chunks = (rows - 1) / grid.chunk_shape[0] + 1;
    }
    grid.stored_bytes.assign(static_cast<std::size_t>(num_chunks), 0);
    for (std::int64_t k = 0; k < num_chunks; ++k) grid.offsets.push_back(k);
    header_.grid = std::move(grid);
  }

  std::string beside(const std::string& name) const {
    return name.starts_with('/') ? name : join_path(folder_of(path_), name);
  }

  /// libhdf5 gives zeros for what a raw file lacks.
  void check_external_files() const {
    const int count = lib_.H5Pget_external_count(plist_.get());
    std::int64_t left = nbytes_;
    for (int k = 0; k < count && left > 0; ++k) {
      std::array<char, 4096> name{};
      std::int64_t offset = 0;
      hsize_t bytes = 0;
      if (lib_.H5Pget_external(plist_.get(), static_cast<unsigned>(k), name.size() - 1, name.data(), &offset, &bytes) <
          0) {
        throw library_error(lib_, path_, cat(title(), ": its external files cannot be read"));
      }
      const std::int64_t part = static_cast<std::int64_t>(std::min(bytes, static_cast<hsize_t>(left)));
      left -= part;
      const std::string file = beside(name.data());
      struct stat found {};
      if (::stat(file.c_str(), &found) != 0)
        fail(cat("lies in the external file ", in_quotes(file), ", which is missing"));
      if (offset < 0 || part > found.st_size || offset > found.st_size - part) {
        fail(cat("lies in the external file ", in_quotes(file), ", which is truncated: expected ", part,
                 " bytes at offset ", offset, ", found ", found.st_size));
      }
    }
    if (left > 0) fail(cat("has external files that are ", left, " bytes too short"));
  }

  /// libhdf5 gives fill values for a missing source, or for the part that a source lacks.
  void check_virtual_sources() const {
    std::size_t count = 0;
    if (lib_.H5Pget_virtual_count(plist_.get(), &count) < 0) {
      throw library_error(lib_, path_, cat(title(), ": its virtual layout cannot be read"));
    }
    for (std::size_t k = 0; k < count; ++k) {
      std::array<char, 4096> file{}, dataset{};
      lib_.H5Pget_virtual_filename(plist_.get(), k, file.data(), file.size() - 1);
      lib_.H5Pget_virtual_dsetname(plist_.get(), k, dataset.data(), dataset.size() - 1);
      const std::string_view named = file.data();
      if (named.find('%') != std::string_view::npos ||
          std::string_view(dataset.data()).find('%') != std::string_view::npos) {
        fail(cat("is virtual with sources by pattern (", in_quotes(named), "), which are not supported"));
      }
      const std::string source = named == "." ? path_ : beside(std::string(named));
      const Id opened(open_file(lib_, source), lib_.H5Fclose);
      if (!opened.good())
        fail(cat("is virtual and its source ", in_quotes(source),
                 " is missing or cannot be opened: ", last_error(lib_)));
      const Id part(open_dataset(lib_, opened.get(), dataset.data()), lib_.H5Dclose);
      if (!part.good())
        fail(cat("is virtual and its source ", in_quotes(source), " has no dataset '", printable(dataset.data()), "'"));
      const Id layout(lib_.H5Dget_create_plist(part.get()), lib_.H5Pclose);
      if (lib_.H5Pget_layout(layout.get()) == kVirtual || lib_.H5Pget_external_count(layout.get()) > 0) {
        fail(cat("is virtual and its source ", in_quotes(source),
                 " is virtual or external again, which is not supported"));
      }
      const Id target(lib_.H5Pget_virtual_vspace(plist_.get(), k), lib_.H5Sclose);
      const Id all(lib_.H5Dget_space(part.get()), lib_.H5Sclose);
      if (lib_.H5Sget_select_npoints(all.get()) < lib_.H5Sget_select_npoints(target.get())) {
        fail(cat("is virtual and its source ", in_quotes(source), " is too small"));
      }
      check_extent(part.get(), lib_.H5Pget_virtual_srcspace(plist_.get(), k), source);
    }
  }

  void check_extent(hid_t part, hid_t selected, const std::string& source) const {
    const Id selection(selected, lib_.H5Sclose), space(lib_.H5Dget_space(part), lib_.H5Sclose);
    std::array<hsize_t, 33> first{}, last{}, have{};
    const int ndims = lib_.H5Sget_simple_extent_dims(space.get(), have.data(), nullptr);
    // Fails for selections without an end, which follow the source.
    if (lib_.H5Sget_select_bounds(selection.get(), first.data(), last.data()) < 0) return;
    // A source that is taken whole is described without its dimensions: then the number of elements has to do.
    if (ndims != lib_.H5Sget_simple_extent_ndims(selection.get())) return;
    for (std::size_t d = 0; d < static_cast<std::size_t>(ndims); ++d) {
      if (last[d] >= have[d]) fail(cat("is virtual and its source ", in_quotes(source), " is too small"));
    }
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

Header describe(const Library& lib, hid_t file, ByteSource& source, const ReadHints& hints, const std::string& name) {
  const Id dataset(open_dataset(lib, file, name), lib.H5Dclose);
  if (dataset.good()) return Describer(lib, source, hints, name, dataset.get()).describe();
  const Error said = library_error(lib, source.path(), cat("dataset '", printable(name), "' cannot be opened"));
  if (said.message().find("newer libhdf5") != std::string::npos) throw Error(said);
  if (lib.H5Lexists(file, name.c_str(), 0) > 0) {
    const Id object(lib.H5Oopen(file, name.c_str(), 0), lib.H5Oclose);
    if (object.good() && lib.H5Iget_type(object.get()) == kObjectDataset) throw Error(said);
    throw file_error(source.path(), object.good()
                                        ? cat("'", printable(name), "' is a group or a type, not a dataset")
                                        : cat("the link '", printable(name), "' leads nowhere: ", last_error(lib)));
  }
  require_arrays(source.path(), {name}, datasets_of(lib, file));
  throw Error(said);  // listed, and yet not opened
}

std::vector<Header> discover(ByteSource& source, const ReadHints& hints) {
  const std::string path(source.path());
  const std::lock_guard<std::mutex> lock(mutex());
  const Library& lib = library();
  const Id file(open_file(lib, path), lib.H5Fclose);
  if (!file.good()) throw library_error(lib, path, "cannot be opened as HDF5");
  std::vector<Header> out;
  if (!hints.arrays.empty()) {
    for (const std::string& name : hints.arrays) out.push_back(describe(lib, file.get(), source, hints, name));
    return out;
  }
  const std::vector<std::string> names = datasets_of(lib, file.get());
  if (names.empty()) throw file_error(path, "holds no dataset");
  std::string left_out;
  for (const std::string& name : names) {
    try {
      out.push_back(describe(lib, file.get(), source, hints, name));
    } catch (const Error& error) {
      if (names.size() == 1 || (out.empty() && &name == &names.back())) throw;
      left_out += cat(left_out.empty() ? "left out: " : "; ", error.message());
    }
  }
  if (!left_out.empty()) out[0].note += cat(out[0].note.empty() ? "" : "; ", left_out);
  return out;
}

/// Reads the box of a piece with libhdf5. The box is found by its number, as a piece knows its place in the stack only.
void read_box(const std::string& name, const std::string& path, const Piece& piece, std::span<std::byte> out) {
  const std::lock_guard<std::mutex> lock(mutex());
  const Library& lib = library();
  const Id file(open_file(lib, path), lib.H5Fclose);
  if (!file.good()) throw library_error(lib, path, "cannot be opened as HDF5");
  const Id dataset(open_dataset(lib, file.get(), name), lib.H5Dclose);
  if (!dataset.good()) throw library_error(lib, path, cat("dataset '", printable(name), "' cannot be opened"));
  const Id type(lib.H5Dget_type(dataset.get()), lib.H5Tclose), space(lib.H5Dget_space(dataset.get()), lib.H5Sclose);
  std::array<hsize_t, 33> dims{}, start{}, count{}, memory{}, zero{};
  const int rank = lib.H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  if (rank < 0 || rank > piece.stored_shape.size()) throw file_error(path, "changed while it was read");
  std::memset(out.data(), 0, out.size());  // what lies outside the extent
  hid_t memory_space = 0;                  // H5S_ALL
  std::int64_t number = piece.offset_bytes;
  hsize_t elements = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const auto k = static_cast<std::size_t>(d);
    memory[k] = static_cast<hsize_t>(piece.stored_shape[d]);
    const auto counts = static_cast<std::int64_t>((dims[k] + memory[k] - 1) / memory[k]);
    start[k] = static_cast<hsize_t>(counts > 0 ? number % counts : 0) * memory[k];
    number = counts > 0 ? number / counts : 0;
    count[k] = std::min(memory[k], dims[k] - std::min(dims[k], start[k]));
    elements *= memory[k];
  }
  // The room is for stored_shape elements; a type that grew since discovery would not fit.
  const std::size_t size = lib.H5Tget_size(type.get());
  if (size == 0 || elements > out.size() / size) throw file_error(path, "changed since it was inspected");
  const Id memory_id(rank > 0 ? lib.H5Screate_simple(rank, memory.data(), nullptr) : -1, lib.H5Sclose);
  if (rank > 0) {
    memory_space = memory_id.get();
    lib.H5Sselect_hyperslab(space.get(), 0, start.data(), nullptr, count.data(), nullptr);
    lib.H5Sselect_hyperslab(memory_space, 0, zero.data(), nullptr, count.data(), nullptr);
  }
  if (lib.H5Dread(dataset.get(), type.get(), memory_space, rank > 0 ? space.get() : 0, 0, out.data()) < 0) {
    throw library_error(lib, path, cat("dataset '", printable(name), "' cannot be read"));
  }
}

void decode(const Encoding& encoding, const Piece& piece, DType, std::span<const std::byte> stored,
            std::span<std::byte> out) {
  const std::string_view codec = encoding.codec;
  const std::size_t blank = codec.find(' ', 4);
  std::int64_t swap = 1;
  if (blank == std::string_view::npos || !parse_int(codec.substr(4, blank - 4), swap)) {
    throw internal_error("an HDF5 codec that cannot be read");
  }
  const std::string_view rest = codec.substr(blank + 1);
  if (codec.starts_with("own ")) {
    undo_filters(rest, stored, out);
  } else {
    const std::size_t end = rest.find('\0');
    read_box(std::string(rest.substr(0, end)), std::string(rest.substr(end + 1)), piece, out);
  }
  if (swap > 1) swap_in_place(out.data(), static_cast<std::int64_t>(out.size()), swap);
}

}  // namespace

extern const Format hdf5_format;
const Format hdf5_format{
    "hdf5",          {".h5", ".hdf5", ".hdf", ".he5", ".nc"}, recognise, discover, decode, true, nullptr, nullptr,
    recognise_inside};

}  // namespace loadstone
