#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace loadstone::hdf5 {

// The part of libhdf5's C interface that is used, declared here because the library is opened at run time and never
// linked (decision 1). The same in 1.10, 1.12, 1.14 and 2.x.
using hid_t = std::int64_t;
using herr_t = int;
using htri_t = int;
using hsize_t = std::uint64_t;
using haddr_t = std::uint64_t;
inline constexpr haddr_t kUndefined = ~haddr_t{0};
inline constexpr int kObjectGroup = 2, kObjectDataset = 5;                             // H5I_type_t
inline constexpr int kSpaceSimple = 1, kSpaceNull = 2;                                 // H5S_class_t
inline constexpr int kCompact = 0, kContiguous = 1, kChunked = 2, kVirtual = 3;        // H5D_layout_t
inline constexpr int kInteger = 0, kFloat = 1, kTime = 2, kBitfield = 4, kOpaque = 5;  // H5T_class_t
inline constexpr int kCompound = 6, kEnum = 8, kArray = 10, kComplex = 11;
inline constexpr unsigned kPartialChunksPlain = 2;  // H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS

using ChunkFn = int (*)(const hsize_t* offset, unsigned filter_mask, haddr_t addr, hsize_t size, void* data);
using LinkFn = herr_t (*)(hid_t group, const char* name, const void* info, void* data);
/// The fields of H5E_error2_t before `desc` are not looked at.
struct ErrorEntry {
  hid_t ids[3];
  const char* unused[3];
  const char* desc;
};
using ErrorFn = herr_t (*)(unsigned n, const ErrorEntry* entry, void* data);

// name, result, parameters
#define LOADSTONE_HDF5_FUNCTIONS(F)                                                                            \
  F(H5dont_atexit, herr_t, ())                                                                                 \
  F(H5open, herr_t, ())                                                                                        \
  F(H5free_memory, herr_t, (void*))                                                                            \
  F(H5Eset_auto2, herr_t, (hid_t, void*, void*))                                                               \
  F(H5Ewalk2, herr_t, (hid_t, int, ErrorFn, void*))                                                            \
  F(H5Fopen, hid_t, (const char*, unsigned, hid_t))                                                            \
  F(H5Fget_name, std::int64_t, (hid_t, char*, std::size_t))                                                    \
  F(H5Fclose, herr_t, (hid_t))                                                                                 \
  F(H5Pcreate, hid_t, (hid_t))                                                                                 \
  F(H5Pclose, herr_t, (hid_t))                                                                                 \
  F(H5Pset_file_locking, herr_t, (hid_t, bool, bool))                                                          \
  F(H5Pset_efile_prefix, herr_t, (hid_t, const char*))                                                         \
  F(H5Pget_layout, int, (hid_t))                                                                               \
  F(H5Pget_chunk, int, (hid_t, int, hsize_t*))                                                                 \
  F(H5Pget_chunk_opts, herr_t, (hid_t, unsigned*))                                                             \
  F(H5Pget_nfilters, int, (hid_t))                                                                             \
  F(H5Pget_filter2, int, (hid_t, unsigned, unsigned*, std::size_t*, unsigned*, std::size_t, char*, unsigned*)) \
  F(H5Pget_external_count, int, (hid_t))                                                                       \
  F(H5Pget_external, herr_t, (hid_t, unsigned, std::size_t, char*, std::int64_t*, hsize_t*))                   \
  F(H5Pget_virtual_count, herr_t, (hid_t, std::size_t*))                                                       \
  F(H5Pget_virtual_filename, std::int64_t, (hid_t, std::size_t, char*, std::size_t))                           \
  F(H5Pget_virtual_dsetname, std::int64_t, (hid_t, std::size_t, char*, std::size_t))                           \
  F(H5Pget_virtual_srcspace, hid_t, (hid_t, std::size_t))                                                      \
  F(H5Pfill_value_defined, herr_t, (hid_t, int*))                                                              \
  F(H5Pget_fill_value, herr_t, (hid_t, hid_t, void*))                                                          \
  F(H5Oopen, hid_t, (hid_t, const char*, hid_t))                                                               \
  F(H5Oclose, herr_t, (hid_t))                                                                                 \
  F(H5Iget_type, int, (hid_t))                                                                                 \
  F(H5Lexists, htri_t, (hid_t, const char*, hid_t))                                                            \
  F(H5Dopen2, hid_t, (hid_t, const char*, hid_t))                                                              \
  F(H5Dclose, herr_t, (hid_t))                                                                                 \
  F(H5Dget_type, hid_t, (hid_t))                                                                               \
  F(H5Dget_space, hid_t, (hid_t))                                                                              \
  F(H5Dget_create_plist, hid_t, (hid_t))                                                                       \
  F(H5Dget_offset, haddr_t, (hid_t))                                                                           \
  F(H5Dget_storage_size, hsize_t, (hid_t))                                                                     \
  F(H5Dread, herr_t, (hid_t, hid_t, hid_t, hid_t, hid_t, void*))                                               \
  F(H5Sget_select_npoints, std::int64_t, (hid_t))                                                              \
  F(H5Pget_virtual_vspace, hid_t, (hid_t, std::size_t))                                                        \
  F(H5Sclose, herr_t, (hid_t))                                                                                 \
  F(H5Screate_simple, hid_t, (int, const hsize_t*, const hsize_t*))                                            \
  F(H5Sselect_hyperslab, herr_t, (hid_t, int, const hsize_t*, const hsize_t*, const hsize_t*, const hsize_t*)) \
  F(H5Sget_select_bounds, herr_t, (hid_t, hsize_t*, hsize_t*))                                                 \
  F(H5Sget_simple_extent_type, int, (hid_t))                                                                   \
  F(H5Sget_simple_extent_ndims, int, (hid_t))                                                                  \
  F(H5Sget_simple_extent_dims, int, (hid_t, hsize_t*, hsize_t*))                                               \
  F(H5Tclose, herr_t, (hid_t))                                                                                 \
  F(H5Tget_class, int, (hid_t))                                                                                \
  F(H5Tget_size, std::size_t, (hid_t))                                                                         \
  F(H5Tget_order, int, (hid_t))                                                                                \
  F(H5Tget_sign, int, (hid_t))                                                                                 \
  F(H5Tget_precision, std::size_t, (hid_t))                                                                    \
  F(H5Tget_offset, int, (hid_t))                                                                               \
  F(H5Tget_fields, herr_t, (hid_t, std::size_t*, std::size_t*, std::size_t*, std::size_t*, std::size_t*))      \
  F(H5Tget_ebias, std::size_t, (hid_t))                                                                        \
  F(H5Tget_super, hid_t, (hid_t))                                                                              \
  F(H5Tget_nmembers, int, (hid_t))                                                                             \
  F(H5Tget_member_name, char*, (hid_t, unsigned))                                                              \
  F(H5Tget_member_value, herr_t, (hid_t, unsigned, void*))                                                     \
  F(H5Tget_member_offset, std::size_t, (hid_t, unsigned))                                                      \
  F(H5Tget_member_type, hid_t, (hid_t, unsigned))                                                              \
  F(H5Tget_array_ndims, int, (hid_t))                                                                          \
  F(H5Tget_array_dims2, int, (hid_t, hsize_t*))                                                                \
  F(H5Zfilter_avail, htri_t, (int))

/// libhdf5 as found: a copy private to this process's Loadstone, so that h5py in the same process, which has another
/// lock, never meets it. No call may be made without mutex().
struct Library {
#define F(name, result, parameters) result(*name) parameters = nullptr;
  LOADSTONE_HDF5_FUNCTIONS(F)
#undef F
  herr_t (*literate)(hid_t, int, int, hsize_t*, LinkFn, void*) = nullptr;
  /// Null below 1.14.4, where addresses lack the user block or the call is missing.
  herr_t (*chunk_iter)(hid_t, hid_t, ChunkFn, void*) = nullptr;
  hid_t file_access_class = -1, dataset_access_class = -1;
  std::string path;
  std::string version;     ///< "1.14.6"
  void* handle = nullptr;  ///< for the symbols that only a writer needs
};

/// Opened on first use: LOADSTONE_HDF5_LIBRARY when it is set, else the newest of the one inside h5py's wheel and the
/// system's. Error{system} that says what was tried and what to do.
const Library& library();
/// Held during every call of the library: it is not thread-safe.
std::mutex& mutex();
/// For `doctor`: "2.0.0, PATH", or the reason why there is none.
std::string report(bool& found);

/// What the last failed call said, innermost words first in importance: "truncated file: eof = …".
std::string last_error(const Library& lib);

/// A library object that is closed at the end of its scope; the mutex has to be held then, too.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  hid_t get() const { return id_; }
  bool good() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

}  // namespace loadstone::hdf5
