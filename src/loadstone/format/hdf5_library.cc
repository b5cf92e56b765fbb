#include "loadstone/format/hdf5_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/site_folders.h"
#include "loadstone/base/text.h"

namespace loadstone::hdf5 {

namespace {

constexpr const char* kCure =
    "install h5py into the environment of loadstone (pip install h5py), or name a libhdf5 of 1.10.7 or newer in "
    "LOADSTONE_HDF5_LIBRARY";

using Version = std::array<int, 3>;

/// Those inside the wheels of h5py, then the system's.
std::vector<std::string> candidates() {
  std::vector<std::string> out;
  for (const std::string& site : site_folders()) {
    for (std::string& path : glob_paths(cat(site, "/h5py.libs/libhdf5-*.so*"))) out.push_back(std::move(path));
  }
  for (const char* name : {"libhdf5_serial.so.103", "libhdf5.so.320", "libhdf5.so.310", "libhdf5.so.200",
                           "libhdf5.so.103", "libhdf5_serial.so", "libhdf5.so"}) {
    out.emplace_back(name);
  }
  return out;
}

/// From the text that every libhdf5 carries, so that asking does not start the library.
bool version_of(void* handle, Version& out) {
  const auto* text = static_cast<const char*>(::dlsym(handle, "H5_lib_vers_info_g"));
  return text != nullptr && std::sscanf(text, "HDF5 library version: %d.%d.%d", &out[0], &out[1], &out[2]) == 3;
}

/// The file behind an open library.
std::string file_of(void* handle) {
  Dl_info info{};
  void* symbol = ::dlsym(handle, "H5open");
  return symbol != nullptr && ::dladdr(symbol, &info) != 0 ? info.dli_fname : "";
}

/// A second instance of an open library with variables of its own: the loader knows files by their inode, so the bytes
/// are copied into a nameless file. The libraries it needs are those of the first, which is still open.
void* open_copy(const std::string& path) {
  const int from = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int to = ::memfd_create("libhdf5", MFD_CLOEXEC);
  struct stat found {};
  bool good = from >= 0 && to >= 0 && ::fstat(from, &found) == 0;
  for (std::int64_t left = good ? found.st_size : 0; good && left > 0;) {
    const ssize_t n = ::sendfile(to, from, nullptr, static_cast<std::size_t>(left));
    good = n > 0;
    left -= n;
  }
  int flags = RTLD_NOW | RTLD_LOCAL;
#if !defined(__SANITIZE_ADDRESS__)
  // A program that links another libhdf5 must not lend its symbols to this one. Sanitizers refuse the flag.
  flags |= RTLD_DEEPBIND;
#endif
  void* handle = good ? ::dlopen(cat("/proc/self/fd/", to).c_str(), flags) : nullptr;
  if (from >= 0) ::close(from);
  if (to >= 0) ::close(to);
  return handle;
}

struct Opened {
  Library lib;
  std::string reason;  ///< why there is none, or ""
};

/// "" or what is missing.
std::string bind(void* handle, const Version& version, Library& lib) {
#define F(name, result, parameters)                                          \
  lib.name = reinterpret_cast<result(*) parameters>(::dlsym(handle, #name)); \
  if (lib.name == nullptr) return #name;
  LOADSTONE_HDF5_FUNCTIONS(F)
#undef F
  void* literate = ::dlsym(handle, "H5Literate2");
  if (literate == nullptr) literate = ::dlsym(handle, "H5Literate");
  if (literate == nullptr) return "H5Literate";
  lib.literate = reinterpret_cast<decltype(lib.literate)>(literate);
  if (version >= Version{1, 14, 4}) {
    lib.chunk_iter = reinterpret_cast<decltype(lib.chunk_iter)>(::dlsym(handle, "H5Dchunk_iter"));
  }
  lib.H5dont_atexit();
  if (lib.H5open() < 0) return "a start that succeeds";
  lib.H5Eset_auto2(0, nullptr, nullptr);
  const auto* file_access = static_cast<const hid_t*>(::dlsym(handle, "H5P_CLS_FILE_ACCESS_ID_g"));
  const auto* dataset_access = static_cast<const hid_t*>(::dlsym(handle, "H5P_CLS_DATASET_ACCESS_ID_g"));
  if (file_access == nullptr || dataset_access == nullptr) return "property list classes";
  lib.file_access_class = *file_access;
  lib.dataset_access_class = *dataset_access;
  return "";
}

Opened open_library() {
  Opened out;
  const char* named = std::getenv("LOADSTONE_HDF5_LIBRARY");
  const bool only = named != nullptr && *named != '\0';
  void* best = nullptr;
  Version newest{0, 0, 0};
  std::string failed;
  for (const std::string& path : only ? std::vector<std::string>{named} : candidates()) {
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    Version version{};
    if (handle == nullptr) {
      if (const char* said = ::dlerror(); only && said != nullptr) failed = said;
      continue;
    }
    if (!version_of(handle, version) || version <= newest) {
      if (only) failed = cat("'", path, "' is not a libhdf5");
      ::dlclose(handle);
      continue;
    }
    if (best != nullptr) ::dlclose(best);
    best = handle;
    newest = version;
  }
  if (best == nullptr) {
    out.reason = cat(only ? cat("LOADSTONE_HDF5_LIBRARY: ", printable(failed)) : "no libhdf5 was found", "; ", kCure);
    return out;
  }
  out.lib.path = file_of(best);
  out.lib.version = cat(newest[0], ".", newest[1], ".", newest[2]);
  void* copy = open_copy(out.lib.path);
  ::dlclose(best);
  if (copy == nullptr) {
    const char* said = ::dlerror();
    out.reason = cat("no private copy of '", out.lib.path, "': ", said == nullptr ? "it cannot be read" : said);
    return out;
  }
  out.lib.handle = copy;
  const std::string missing = bind(copy, newest, out.lib);
  if (!missing.empty()) {
    out.reason = cat("libhdf5 ", out.lib.version, " at '", out.lib.path, "' lacks ", missing, "; ", kCure);
  }
  return out;
}

const Opened& opened() {
  static const Opened kOpened = open_library();
  return kOpened;
}

}  // namespace

const Library& library() {
  const Opened& found = opened();
  if (!found.reason.empty()) {
    throw Error(ErrorKind::system, cat("HDF5 is read through libhdf5, which is not there: ", found.reason));
  }
  return found.lib;
}

std::mutex& mutex() {
  static std::mutex kMutex;
  return kMutex;
}

std::string report(bool& found) {
  const std::lock_guard<std::mutex> lock(mutex());
  const Opened& it = opened();
  found = it.reason.empty();
  return found ? cat("libhdf5 ", it.lib.version, ", ", it.lib.path) : it.reason;
}

std::string last_error(const Library& lib) {
  std::string out;
  const ErrorFn keep = [](unsigned, const ErrorEntry* entry, void* data) -> herr_t {
    auto* text = static_cast<std::string*>(data);
    if (entry->desc != nullptr && text->empty()) *text = entry->desc;  // upwards: the innermost comes first
    return 0;
  };
  lib.H5Ewalk2(0, 0, keep, &out);
  return out.empty() ? "no reason given" : printable(out);
}

}  // namespace loadstone::hdf5
