#include "loadstone/format/hdf5_sources.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/hdf5_open.h"
#include "loadstone/format/sniff.h"

namespace loadstone::hdf5 {

namespace {

class Checker {
 public:
  Checker(const Library& lib, hid_t plist, const std::string& path, const std::string& title)
      : lib_(lib), plist_(plist), path_(path), title_(title) {}

  /// libhdf5 gives zeros for what a raw file lacks.
  void external_files(std::int64_t left) const {
    const int count = lib_.H5Pget_external_count(plist_);
    for (int k = 0; k < count && left > 0; ++k) {
      std::array<char, 4096> name{};
      std::int64_t offset = 0;
      hsize_t bytes = 0;
      if (lib_.H5Pget_external(plist_, static_cast<unsigned>(k), name.size() - 1, name.data(), &offset, &bytes) < 0) {
        throw library_error(lib_, path_, cat(title_, ": its external files cannot be read"));
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
  void virtual_sources() const {
    std::size_t count = 0;
    if (lib_.H5Pget_virtual_count(plist_, &count) < 0) {
      throw library_error(lib_, path_, cat(title_, ": its virtual layout cannot be read"));
    }
    for (std::size_t k = 0; k < count; ++k) {
      std::array<char, 4096> file{}, dataset{};
      lib_.H5Pget_virtual_filename(plist_, k, file.data(), file.size() - 1);
      lib_.H5Pget_virtual_dsetname(plist_, k, dataset.data(), dataset.size() - 1);
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
      const Id target(lib_.H5Pget_virtual_vspace(plist_, k), lib_.H5Sclose);
      const Id all(lib_.H5Dget_space(part.get()), lib_.H5Sclose);
      if (lib_.H5Sget_select_npoints(all.get()) < lib_.H5Sget_select_npoints(target.get())) {
        fail(cat("is virtual and its source ", in_quotes(source), " is too small"));
      }
      check_extent(part.get(), lib_.H5Pget_virtual_srcspace(plist_, k), source);
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

 private:
  [[noreturn]] void fail(std::string_view what) const { throw file_error(path_, cat(title_, " ", what)); }
  std::string beside(const std::string& name) const {
    return name.starts_with('/') ? name : join_path(folder_of(path_), name);
  }

  const Library& lib_;
  hid_t plist_;
  const std::string& path_;
  const std::string& title_;
};

}  // namespace

void check_external_files(const Library& lib, hid_t plist, const std::string& path, const std::string& title,
                          std::int64_t nbytes) {
  Checker(lib, plist, path, title).external_files(nbytes);
}

void check_virtual_sources(const Library& lib, hid_t plist, const std::string& path, const std::string& title) {
  Checker(lib, plist, path, title).virtual_sources();
}

}  // namespace loadstone::hdf5
