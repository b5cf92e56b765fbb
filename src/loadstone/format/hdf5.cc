// HDF5 files: libhdf5 reads the metadata, our own threads the elements wherever they can.

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/hdf5_describe.h"
#include "loadstone/format/hdf5_filters.h"
#include "loadstone/format/hdf5_library.h"
#include "loadstone/format/hdf5_open.h"

namespace loadstone {

namespace {

using namespace hdf5;
using std::string_view_literals::operator""sv;

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n"sv;
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

Header describe(const Library& lib, hid_t file, ByteSource& source, const ReadHints& hints, const std::string& name) {
  const Id dataset(open_dataset(lib, file, name), lib.H5Dclose);
  if (dataset.good()) return describe_dataset(lib, source, hints, name, dataset.get());
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
