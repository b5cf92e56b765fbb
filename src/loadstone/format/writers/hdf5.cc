// HDF5: libhdf5 makes the structure; elements of contiguous datasets are written by us, where it says they belong.

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/hdf5_library.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

namespace {

using namespace hdf5;  // NOLINT(google-build-using-namespace): the library's own words

constexpr unsigned kTruncate = 2;                                // H5F_ACC_TRUNC
constexpr int kEarly = 1, kNever = 1;                            // H5D_ALLOC_TIME_EARLY, H5D_FILL_TIME_NEVER
constexpr int kDeflate = 1, kShuffle = 2;                        // H5Z_FILTER_*
constexpr int kCompoundClass = 6, kScalarSpace = 0;              // H5T_COMPOUND, H5S_SCALAR
constexpr std::int64_t kMaxChunk = (std::int64_t{1} << 32) - 1;  // the format's own limit

// What only writing needs.
#define LOADSTONE_HDF5_WRITE_FUNCTIONS(F)                                                            \
  F(H5Fcreate, hid_t, (const char*, unsigned, hid_t, hid_t))                                         \
  F(H5Dcreate2, hid_t, (hid_t, const char*, hid_t, hid_t, hid_t, hid_t, hid_t))                      \
  F(H5Dwrite_chunk, herr_t, (hid_t, hid_t, std::uint32_t, const hsize_t*, std::size_t, const void*)) \
  F(H5Screate, hid_t, (int))                                                                         \
  F(H5Pset_create_intermediate_group, herr_t, (hid_t, unsigned))                                     \
  F(H5Pset_alloc_time, herr_t, (hid_t, int))                                                         \
  F(H5Pset_fill_time, herr_t, (hid_t, int))                                                          \
  F(H5Pset_chunk, herr_t, (hid_t, int, const hsize_t*))                                              \
  F(H5Pset_filter, herr_t, (hid_t, int, unsigned, std::size_t, const unsigned*))                     \
  F(H5Tcopy, hid_t, (hid_t))                                                                         \
  F(H5Tcreate, hid_t, (int, std::size_t))                                                            \
  F(H5Tinsert, herr_t, (hid_t, const char*, std::size_t, hid_t))                                     \
  F(H5Tenum_create, hid_t, (hid_t))                                                                  \
  F(H5Tenum_insert, herr_t, (hid_t, const char*, const void*))                                       \
  F(H5Tset_fields, herr_t, (hid_t, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t)) \
  F(H5Tset_size, herr_t, (hid_t, std::size_t))                                                       \
  F(H5Tset_ebias, herr_t, (hid_t, std::size_t))

struct Calls {
#define F(name, result, parameters) result(*name) parameters = nullptr;
  LOADSTONE_HDF5_WRITE_FUNCTIONS(F)
#undef F
  hid_t dataset_create_class = -1, link_create_class = -1;
};

hid_t global(const Library& lib, const char* name) {
  const auto* id = static_cast<const hid_t*>(::dlsym(lib.handle, name));
  if (id == nullptr) throw Error(ErrorKind::system, cat("libhdf5 ", lib.version, " lacks ", name));
  return *id;
}

/// The mutex is held.
const Calls& calls(const Library& lib) {
  static const Calls kCalls = [&lib] {
    Calls out;
#define F(name, result, parameters)                                              \
  out.name = reinterpret_cast<result(*) parameters>(::dlsym(lib.handle, #name)); \
  if (out.name == nullptr) throw Error(ErrorKind::system, cat("libhdf5 ", lib.version, " lacks ", #name));
    LOADSTONE_HDF5_WRITE_FUNCTIONS(F)
#undef F
    out.dataset_create_class = global(lib, "H5P_CLS_DATASET_CREATE_ID_g");
    out.link_create_class = global(lib, "H5P_CLS_LINK_CREATE_ID_g");
    return out;
  }();
  return kCalls;
}

bool is_float(DType dtype) {
  return dtype.code == dtypes::kFloat32.code;
}

std::string refusal(const NewArray& array) {
  const DType t = array.dtype;
  const bool number = t.lanes == 1 && t.whole_bytes() &&
                      (t == dtypes::kBool || t == dtypes::kBFloat16 || t.code <= dtypes::kFloat32.code ||
                       t == dtypes::kComplex64 || t == dtypes::kComplex128);
  if (!number) return "HDF5 has no such type";
  if (array.shape.size() > 32) return "HDF5 has at most 32 dimensions";
  if (printable(array.name) != array.name) return "its name is no plain text";
  const std::vector<std::string> parts = split(array.name, '/');
  if (std::any_of(parts.begin(), parts.end(), [](const std::string& p) { return p.empty() || p == "."; })) {
    return "its name is no path of HDF5";
  }
  return "";
}

/// Chunks are what compression asks for, or the caller.
bool is_chunked(const NewArray& array, const StorageOptions& storage) {
  const bool plain = storage.compress.empty() || storage.compress == "none";
  return !array.shape.empty() && (!plain || !storage.chunks.empty());
}

std::int64_t memory(const NewFile& file) {
  std::int64_t most = kPullBytes;
  for (const NewArray& array : file.arrays) {
    if (!is_chunked(array, file.storage)) continue;
    most = std::max(most, 4 * array.dtype.nbytes(num_elems(chunk_shape(array, file.storage))));
  }
  return most;
}

/// First all first bytes of the elements, then all second ones, …
void shuffle(std::span<const std::byte> in, std::size_t itemsize, std::vector<std::byte>& out) {
  out.resize(in.size());
  const std::size_t n = in.size() / itemsize;
  for (std::size_t b = 0; b < itemsize; ++b) {
    std::byte* to = out.data() + b * n;
    for (std::size_t i = 0; i < n; ++i) to[i] = in[i * itemsize + b];
  }
}

class Hdf5Writer {
 public:
  Hdf5Writer(const NewFile& file, FileWriter& out) : file_(file), out_(out), lib_(library()) {}

  void run() {
    std::vector<std::int64_t> offsets;  // of the elements; -1 = none to write, or written as chunks
    {
      std::unique_lock<std::mutex> lock(mutex());
      const Calls& c = calls(lib_);
      const Id access(lib_.H5Pcreate(lib_.file_access_class), lib_.H5Pclose);
      lib_.H5Pset_file_locking(access.get(), false, true);
      const hid_t created = c.H5Fcreate(out_.temporary().c_str(), kTruncate, 0, access.get());
      demand(created, "cannot create the file");
      const auto close = [&] { return lib_.H5Fclose(created); };
      try {
        for (std::size_t a = 0; a < file_.arrays.size(); ++a) offsets.push_back(dataset(c, created, a, lock));
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        close();
        throw;
      }
      demand(close(), "cannot close the file");
    }
    for (std::size_t a = 0; a < offsets.size(); ++a) {
      std::int64_t at = offsets[a];
      if (at < 0) continue;
      pull_in_order(file_, a, [&](std::span<const std::byte> bytes) {
        out_.write_at(at, bytes.data(), bytes.size());
        at += static_cast<std::int64_t>(bytes.size());
      });
    }
  }

 private:
  template <typename T>
  void demand(T result, std::string_view what) const {
    if (result >= 0) return;
    throw Error(ErrorKind::system, cat("'", printable(out_.path()), "': ", what, ": ", last_error(lib_)));
  }

  hid_t type_of(const Calls& c, DType dtype) const {
    const auto standard = [&](const std::string& name) { return c.H5Tcopy(global(lib_, name.c_str())); };
    if (dtype == dtypes::kBool) {
      const hid_t type = c.H5Tenum_create(global(lib_, "H5T_STD_I8LE_g"));
      for (const std::int8_t value : {std::int8_t{0}, std::int8_t{1}}) {
        demand(c.H5Tenum_insert(type, value == 0 ? "FALSE" : "TRUE", &value), "cannot make a type");
      }
      return type;
    }
    if (dtype == dtypes::kComplex64 || dtype == dtypes::kComplex128) {
      const auto half = static_cast<std::size_t>(dtype.itemsize() / 2);
      const Id part(standard(half == 4 ? "H5T_IEEE_F32LE_g" : "H5T_IEEE_F64LE_g"), lib_.H5Tclose);
      const hid_t type = c.H5Tcreate(kCompoundClass, 2 * half);
      demand(c.H5Tinsert(type, "r", 0, part.get()), "cannot make a type");
      demand(c.H5Tinsert(type, "i", half, part.get()), "cannot make a type");
      return type;
    }
    if (dtype == dtypes::kFloat16 || dtype == dtypes::kBFloat16) {
      const hid_t type = standard("H5T_IEEE_F32LE_g");
      const std::size_t mantissa = dtype == dtypes::kFloat16 ? 10 : 7;
      demand(c.H5Tset_fields(type, 15, mantissa, 15 - mantissa, 0, mantissa), "cannot make a type");
      demand(c.H5Tset_size(type, 2), "cannot make a type");
      demand(c.H5Tset_ebias(type, mantissa == 10 ? 15 : 127), "cannot make a type");
      return type;
    }
    if (is_float(dtype)) return standard(cat("H5T_IEEE_F", static_cast<int>(dtype.bits), "LE_g"));
    return standard(
        cat("H5T_STD_", dtype.code == dtypes::kInt8.code ? "I" : "U", static_cast<int>(dtype.bits), "LE_g"));
  }

  /// Makes dataset `a`, writes its chunks, and says where contiguous elements belong.
  std::int64_t dataset(const Calls& c, hid_t file, std::size_t a, std::unique_lock<std::mutex>& lock) {
    const NewArray& array = file_.arrays[a];
    const bool chunked = is_chunked(array, file_.storage);
    const Shape chunk = chunked ? chunk_shape(array, file_.storage) : Shape{};
    const auto extents = [](const Shape& shape) { return std::vector<hsize_t>(shape.begin(), shape.end()); };
    const Id type(type_of(c, array.dtype), lib_.H5Tclose);
    demand(type.get(), "cannot make a type");
    const Id space(array.shape.empty()
                       ? c.H5Screate(kScalarSpace)
                       : lib_.H5Screate_simple(array.shape.size(), extents(array.shape).data(), nullptr),
                   lib_.H5Sclose);
    demand(space.get(), "cannot make a dataspace");
    const Id creation(lib_.H5Pcreate(c.dataset_create_class), lib_.H5Pclose);
    const Id links(lib_.H5Pcreate(c.link_create_class), lib_.H5Pclose);
    c.H5Pset_create_intermediate_group(links.get(), 1);
    if (chunked) {
      demand(c.H5Pset_chunk(creation.get(), chunk.size(), extents(chunk).data()), "cannot make chunks");
      const bool shuffled = file_.storage.compress.starts_with("shuffle");
      const auto size = static_cast<unsigned>(array.dtype.itemsize());
      const unsigned level = file_.storage.level < 0 ? 4 : static_cast<unsigned>(std::min(file_.storage.level, 9));
      if (shuffled) demand(c.H5Pset_filter(creation.get(), kShuffle, 0, 1, &size), "cannot set the shuffle filter");
      if (file_.storage.compress.ends_with("deflate")) {
        demand(c.H5Pset_filter(creation.get(), kDeflate, 0, 1, &level), "cannot set the deflate filter");
      }
    } else {
      demand(c.H5Pset_alloc_time(creation.get(), kEarly), "cannot allocate");
      demand(c.H5Pset_fill_time(creation.get(), kNever), "cannot allocate");
    }
    const Id set(c.H5Dcreate2(file, array.name.c_str(), type.get(), space.get(), links.get(), creation.get(), 0),
                 lib_.H5Dclose);
    demand(set.get(), cat("cannot make dataset '", array.name, "'"));
    if (chunked) {
      write_chunks(c, set.get(), a, chunk, lock);
      return -1;
    }
    const haddr_t offset = lib_.H5Dget_offset(set.get());
    if (bytes_of(array) == 0) return -1;
    if (offset == kUndefined) throw Error(ErrorKind::system, cat("libhdf5 has not placed '", array.name, "'"));
    return static_cast<std::int64_t>(offset);
  }

  void write_chunks(const Calls& c, hid_t set, std::size_t a, const Shape& chunk, std::unique_lock<std::mutex>& lock) {
    const auto itemsize = static_cast<std::size_t>(file_.arrays[a].dtype.itemsize());
    std::vector<std::byte> plain, shuffled, packed;
    for_each_chunk(file_.arrays[a].shape, chunk, [&](const Dims&, const Box& box) {
      lock.unlock();  // others may read and write while this is made
      pull_chunk(file_, a, box, chunk, plain);
      std::span<const std::byte> bytes = plain;
      if (file_.storage.compress.starts_with("shuffle") && itemsize > 1) {
        shuffle(plain, itemsize, shuffled);
        bytes = shuffled;
      }
      if (file_.storage.compress.ends_with("deflate")) {
        packed = compress("deflate", file_.storage.level < 0 ? 4 : file_.storage.level, bytes);
        bytes = packed;
      }
      lock.lock();
      if (static_cast<std::int64_t>(bytes.size()) > kMaxChunk) throw usage_error("a chunk is larger than 4 GiB");
      const std::vector<hsize_t> at(box.begin.begin(), box.begin.end());
      demand(c.H5Dwrite_chunk(set, 0, 0, at.data(), bytes.size(), bytes.data()), "cannot write a chunk");
    });
  }

  const NewFile& file_;
  FileWriter& out_;
  const Library& lib_;
};

void write_hdf5(const NewFile& file, FileWriter& out) {
  Hdf5Writer(file, out).run();
}

}  // namespace

extern const Writer hdf5_writer;
const Writer hdf5_writer{.name = "hdf5",
                         .extension = ".h5",
                         .several = true,
                         .chunked = true,
                         .codecs = {"deflate", "shuffle+deflate"},
                         .refusal = refusal,
                         .memory = memory,
                         .write = write_hdf5};

}  // namespace loadstone
