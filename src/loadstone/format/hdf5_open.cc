#include "loadstone/format/hdf5_open.h"

#include <cstddef>

#include "loadstone/base/cat.h"
#include "loadstone/format/faults.h"

namespace loadstone::hdf5 {

namespace {

constexpr int kMaxDepth = 32;  // of groups
constexpr std::size_t kMaxNames = 100'000;

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

}  // namespace

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

std::vector<std::string> datasets_of(const Library& lib, hid_t file) {
  std::vector<std::string> out;
  const Id root(lib.H5Oopen(file, "/", 0), lib.H5Oclose);
  if (root.good()) list_datasets(lib, root.get(), "", 0, out);
  return out;
}

}  // namespace loadstone::hdf5
