#include "loadstone/format/catalog.h"

#include <algorithm>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

constexpr std::uint8_t kBigEndian = 1;
constexpr std::uint8_t kFOrder = 2;
constexpr std::uint8_t kHasGrid = 4;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

std::uint8_t make_flags(ByteOrder byte_order, ElementOrder order) {
  return static_cast<std::uint8_t>((byte_order == ByteOrder::big ? kBigEndian : 0U) |
                                   (order == ElementOrder::f ? kFOrder : 0U));
}

/// Chunks along each dimension of a part of this shape.
Dims grid_counts(const ChunkGrid& grid, const Shape& part_shape) {
  if (!grid.row_bounds.empty()) {
    Dims counts = Dims::filled(part_shape.size(), 1);
    counts[0] = static_cast<std::int64_t>(grid.row_bounds.size()) - 1;
    return counts;
  }
  Dims counts = Dims::filled(part_shape.size(), 0);
  for (int d = 0; d < part_shape.size(); ++d) counts[d] = ceil_div(part_shape[d], grid.chunk_shape[d]);
  return counts;
}

}  // namespace

std::int32_t FileTable::add(std::string_view path, FileStamp stamp) {
  names_.append(path);
  name_ends_.push_back(static_cast<std::int64_t>(names_.size()));
  sizes_.push_back(stamp.size_bytes);
  mtimes_.push_back(stamp.mtime_ns);
  return static_cast<std::int32_t>(sizes_.size()) - 1;
}

std::string FileTable::path(std::int64_t file) const {
  const std::int64_t begin = file == 0 ? 0 : name_ends_[at(file - 1)];
  return names_.substr(at(begin), at(name_ends_[at(file)] - begin));
}

FileStamp FileTable::stamp(std::int64_t file) const {
  return {sizes_[at(file)], mtimes_[at(file)]};
}

void Tiling::add_part(std::int64_t rows, std::int32_t file, std::int64_t offset_bytes, std::uint8_t flags,
                      std::int32_t encoding, std::int64_t stored_bytes, std::int64_t pieces) {
  const auto total = checked_add(cum_.back(), rows);
  if (!total || rows < 0) {
    throw data_error(cat("stacking ", rows, " rows onto ", cum_.back(), " passes 2^63-1 rows"));
  }
  const std::int64_t part = num_parts();
  if (pieces != 1 && first_piece_.empty()) {
    first_piece_.resize(at(part) + 1);
    for (std::int64_t f = 0; f <= part; ++f) first_piece_[at(f)] = f;
  }
  if (!first_piece_.empty()) first_piece_.push_back(first_piece_.back() + pieces);
  if (encoding >= 0 && encodings_.empty()) encodings_.assign(at(part), -1);
  if (encoding >= 0 || !encodings_.empty()) encodings_.push_back(encoding);
  if (stored_bytes >= 0 && stored_.empty()) stored_.assign(at(part), -1);
  if (stored_bytes >= 0 || !stored_.empty()) stored_.push_back(stored_bytes);
  cum_.push_back(*total);
  files_.push_back(file);
  offsets_.push_back(offset_bytes);
  flags_.push_back(flags);
}

void Tiling::add_plain(std::int64_t rows, std::int32_t file, std::int64_t offset_bytes, ByteOrder byte_order,
                       ElementOrder order, std::int32_t encoding, std::int64_t stored_bytes) {
  add_part(rows, file, offset_bytes, make_flags(byte_order, order), encoding, stored_bytes, 1);
}

void Tiling::add_grid(std::int64_t rows, std::int32_t file, ChunkGrid grid, ByteOrder byte_order, ElementOrder order,
                      std::int32_t encoding) {
  Shape part_shape = shape();
  part_shape[0] = rows;
  for (const std::int64_t extent : grid.chunk_shape) {
    if (extent < 1) throw data_error(cat("chunk shape ", to_string(grid.chunk_shape), " has an extent below 1"));
  }
  std::int64_t chunks = 1;
  for (const std::int64_t count : grid_counts(grid, part_shape)) {
    const auto product = checked_mul(chunks, count);
    if (!product) throw data_error(cat("a chunk grid over ", to_string(part_shape), " has more than 2^63-1 chunks"));
    chunks = *product;
  }
  const auto listed = grid.sparse ? static_cast<std::int64_t>(grid.numbers.size()) : chunks;
  if (static_cast<std::int64_t>(grid.offsets.size()) != listed ||
      static_cast<std::int64_t>(grid.stored_bytes.size()) != listed || (listed > chunks)) {
    throw internal_error(cat("a chunk grid of ", chunks, " chunks came with ", grid.offsets.size(), " offsets"));
  }
  add_part(rows, file, 0, static_cast<std::uint8_t>(make_flags(byte_order, order) | kHasGrid), encoding, -1, chunks);
  grid_parts_.push_back(num_parts() - 1);
  grids_.push_back(std::move(grid));
}

void Tiling::set_scalar() {
  scalar_ = true;
}

Shape Tiling::shape() const {
  Shape out;
  if (scalar_) return out;
  out.push_back(cum_.back());
  for (const std::int64_t extent : trailing_) out.push_back(extent);
  return out;
}

std::int64_t Tiling::num_pieces() const {
  return first_piece_.empty() ? num_parts() : first_piece_.back();
}

bool Tiling::all_plain() const {
  return grids_.empty() && std::all_of(encodings_.begin(), encodings_.end(), [](std::int32_t e) { return e < 0; });
}

std::pair<bool, bool> Tiling::part_order(std::int64_t part) const {
  return {(flags_[at(part)] & kBigEndian) != 0, (flags_[at(part)] & kFOrder) != 0};
}

const ChunkGrid* Tiling::grid_of(std::int64_t part) const {
  if ((flags_[at(part)] & kHasGrid) == 0) return nullptr;
  const auto it = std::lower_bound(grid_parts_.begin(), grid_parts_.end(), part);
  return &grids_[static_cast<std::size_t>(it - grid_parts_.begin())];
}

std::int64_t Tiling::first_piece_of(std::int64_t part) const {
  return first_piece_.empty() ? part : first_piece_[at(part)];
}

Piece Tiling::plain_piece(std::int64_t part, DType dtype) const {
  Piece piece;
  piece.number = first_piece_of(part);
  piece.part = part;
  piece.box = Box::whole(shape());
  if (!scalar_) {
    piece.box.begin[0] = cum_[at(part)];
    piece.box.end[0] = cum_[at(part) + 1];
  }
  piece.stored_shape = piece.box.shape();
  piece.file = files_[at(part)];
  piece.offset_bytes = offsets_[at(part)];
  piece.byte_order = (flags_[at(part)] & kBigEndian) != 0 ? ByteOrder::big : ByteOrder::little;
  piece.order = (flags_[at(part)] & kFOrder) != 0 ? ElementOrder::f : ElementOrder::c;
  piece.encoding = encodings_.empty() ? -1 : encodings_[at(part)];
  const std::int64_t stored = stored_.empty() ? -1 : stored_[at(part)];
  piece.stored_bytes = stored >= 0 ? stored : dtype.nbytes(num_elems(piece.stored_shape));
  return piece;
}

Piece Tiling::grid_piece(std::int64_t part, const ChunkGrid& grid, std::int64_t chunk, DType dtype) const {
  Piece piece = plain_piece(part, dtype);
  const Box part_box = piece.box;
  const Dims counts = grid_counts(grid, part_box.shape());
  piece.number += chunk;
  std::int64_t rest = chunk;
  for (int d = part_box.ndim() - 1; d >= 0; --d) {
    const std::int64_t k = rest % counts[d];
    rest /= counts[d];
    if (!grid.row_bounds.empty()) {
      if (d > 0) continue;
      piece.box.begin[0] = part_box.begin[0] + grid.row_bounds[at(k)];
      piece.box.end[0] = part_box.begin[0] + grid.row_bounds[at(k) + 1];
    } else {
      piece.box.begin[d] = part_box.begin[d] + k * grid.chunk_shape[d];
      piece.box.end[d] = std::min(part_box.end[d], piece.box.begin[d] + grid.chunk_shape[d]);
    }
  }
  piece.stored_shape = grid.row_bounds.empty() ? grid.chunk_shape : piece.box.shape();
  std::int64_t entry = chunk;
  if (grid.sparse) {
    const auto it = std::lower_bound(grid.numbers.begin(), grid.numbers.end(), chunk);
    piece.absent = it == grid.numbers.end() || *it != chunk;
    entry = it - grid.numbers.begin();
  }
  piece.absent = piece.absent || grid.offsets[at(entry)] < 0;
  piece.offset_bytes = piece.absent ? -1 : grid.offsets[at(entry)];
  piece.stored_bytes = piece.absent ? 0 : grid.stored_bytes[at(entry)];
  if (piece.absent) return piece;
  if (!grid.files.empty()) piece.file = grid.files[at(entry)];
  if (!grid.chunk_encodings.empty()) piece.encoding = grid.chunk_encodings[at(entry)];
  return piece;
}

Piece Tiling::piece(std::int64_t number, DType dtype) const {
  std::int64_t part = number;
  if (!first_piece_.empty()) {
    part = std::upper_bound(first_piece_.begin(), first_piece_.end(), number) - first_piece_.begin() - 1;
  }
  if (const ChunkGrid* grid = grid_of(part)) return grid_piece(part, *grid, number - first_piece_of(part), dtype);
  return plain_piece(part, dtype);
}

namespace {

/// The half-open range of chunk indices along each dimension that overlap `box` (array indices).
Box chunk_range(const ChunkGrid& grid, const Box& part_box, const Box& box) {
  Box range = Box::whole(grid_counts(grid, part_box.shape()));
  const Box inside = relative_to(intersect(part_box, box), part_box.begin);
  if (!grid.row_bounds.empty()) {
    const auto first = std::upper_bound(grid.row_bounds.begin(), grid.row_bounds.end(), inside.begin[0]);
    const auto last = std::lower_bound(grid.row_bounds.begin(), grid.row_bounds.end(), inside.end[0]);
    range.begin[0] = first - grid.row_bounds.begin() - 1;
    range.end[0] = last - grid.row_bounds.begin();
    return range;
  }
  for (int d = 0; d < box.ndim(); ++d) {
    range.begin[d] = inside.begin[d] / grid.chunk_shape[d];
    range.end[d] = ceil_div(inside.end[d], grid.chunk_shape[d]);
  }
  return range;
}

/// The next index of `range` in row-major order, or false at the end.
bool advance(Dims& index, const Box& range) {
  for (int d = index.size() - 1; d >= 0; --d) {
    if (++index[d] < range.end[d]) return true;
    index[d] = range.begin[d];
  }
  return false;
}

/// The least index of `range` (row-major) whose linear number in a grid of `counts` is at least `first`; false if none.
bool seek(Dims& index, const Box& range, const Dims& counts, std::int64_t first) {
  index = range.begin;
  if (first <= 0) return true;
  Dims wanted = Dims::filled(counts.size(), 0);
  for (int d = counts.size() - 1; d >= 0; --d) {
    wanted[d] = first % counts[d];
    first /= counts[d];
  }
  if (first > 0) return false;
  for (int d = 0; d < counts.size(); ++d) {
    if (wanted[d] < range.begin[d]) return true;  // this and all later dimensions start at the range's begin
    if (wanted[d] >= range.end[d]) {              // carry into the dimension before
      for (int e = d; e < counts.size(); ++e) index[e] = range.begin[e];
      for (int e = d - 1; e >= 0; --e) {
        if (++index[e] < range.end[e]) return true;
        index[e] = range.begin[e];
      }
      return false;
    }
    index[d] = wanted[d];
  }
  return true;
}

}  // namespace

void Tiling::for_each_overlap(const Box& box, DType dtype, const std::function<bool(const Piece&)>& fn,
                              std::int64_t first_piece) const {
  if (box.empty()) return;
  if (scalar_) {
    if (first_piece == 0) fn(plain_piece(0, dtype));
    return;
  }
  // First part whose end lies beyond the first row: parts without rows are passed over.
  std::int64_t part = std::upper_bound(cum_.begin(), cum_.end(), box.begin[0]) - cum_.begin() - 1;
  if (first_piece > first_piece_of(part)) {
    const std::int64_t wanted =
        first_piece_.empty()
            ? std::min(first_piece, num_parts())
            : std::upper_bound(first_piece_.begin(), first_piece_.end(), first_piece) - first_piece_.begin() - 1;
    part = std::max(part, wanted);
  }
  for (; part < num_parts() && cum_[at(part)] < box.end[0]; ++part) {
    if (rows_of(part) == 0) continue;
    const ChunkGrid* grid = grid_of(part);
    if (grid == nullptr) {
      if (first_piece_of(part) >= first_piece && !fn(plain_piece(part, dtype))) return;
      continue;
    }
    Box part_box = Box::whole(shape());
    part_box.begin[0] = cum_[at(part)];
    part_box.end[0] = cum_[at(part) + 1];
    const Dims counts = grid_counts(*grid, part_box.shape());
    const Box range = chunk_range(*grid, part_box, box);
    Dims index;
    if (!seek(index, range, counts, first_piece - first_piece_of(part))) continue;
    do {
      if (!fn(grid_piece(part, *grid, linear_index(index, Box::whole(counts)), dtype))) return;
    } while (advance(index, range));
  }
}

std::int64_t Catalog::index_of(std::string_view name) const {
  std::vector<std::string> known;
  for (const ArrayEntry& array : arrays) known.push_back(array.name);
  if (name.empty()) {
    if (arrays.size() == 1) return 0;
    const bool one = !arrays.empty() && arrays[0].tiling.num_parts() == 1 && files.size() > 0;
    const std::string where =
        one ? cat(" in '", printable(files.path(arrays[0].tiling.file_of(0))), "' is a group and") : std::string{};
    throw usage_error(
        cat("the data set", where, " has ", arrays.size(), " arrays; name one of them: ", join_first(known, 20)));
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].name == name) return static_cast<std::int64_t>(i);
  }
  const std::string near = nearest(name, known);
  throw usage_error(cat("no array named '", printable(name), "'",
                        near.empty() ? "" : cat(", did you mean '", near, "'"),
                        "; the data set has: ", join_first(known, 20)));
}

const ArrayEntry& Catalog::array(std::string_view name) const {
  return arrays[at(index_of(name))];
}

namespace {

std::string rows_summary(const Tiling& tiling) {
  constexpr std::int64_t kShown = 8;
  std::vector<std::string> rows;
  for (std::int64_t f = 0; f < std::min(kShown, tiling.num_parts()); ++f) {
    rows.push_back(std::to_string(tiling.rows_of(f)));
  }
  std::string out = join(rows, ", ");
  if (tiling.num_parts() > kShown) out += cat(" and ", format_count(tiling.num_parts() - kShown), " more");
  return out;
}

/// "little-endian, C order", or how many parts differ when a set is mixed.
std::string order_summary(const ArrayEntry& array) {
  std::int64_t big = 0;
  std::int64_t fortran = 0;
  const std::int64_t parts = array.tiling.num_parts();
  for (std::int64_t f = 0; f < parts; ++f) {
    const auto [is_big, is_f] = array.tiling.part_order(f);
    big += is_big ? 1 : 0;
    fortran += is_f ? 1 : 0;
  }
  const auto mixed = [parts](std::int64_t n, std::string_view none, std::string_view all) {
    if (n == 0) return std::string(none);
    return n == parts ? std::string(all) : cat(all, " in ", n, " of ", parts, " files");
  };
  const std::string bytes = array.dtype.swap_bytes() > 1 ? mixed(big, "little-endian", "big-endian") + ", " : "";
  return bytes + mixed(fortran, "C order", "Fortran order");
}

}  // namespace

std::string to_string(const Catalog& catalog) {
  std::string out;
  for (const ArrayEntry& array : catalog.arrays) {
    const std::int64_t bytes = array.nbytes();
    out +=
        cat(printable(array.name), ": ", to_string(array.dtype), " ", to_string(array.shape), ", ", format_bytes(bytes),
            " (", format_count(bytes), " bytes), ", array.format, ", ", order_summary(array), "\n");
    if (!array.tiling.scalar()) {
      out += cat("  ", format_count(array.tiling.num_parts()), array.tiling.num_parts() == 1 ? " file" : " files",
                 ", rows ", rows_summary(array.tiling), "; total ", format_count(array.shape[0]), "; trailing shape ",
                 to_string(Dims(array.shape.span().subspan(1))), "\n");
    }
  }
  if (catalog.arrays.empty()) out += "no arrays\n";
  for (const std::string& note : catalog.notes) out += cat("  note: ", note, "\n");
  if (!catalog.left_out.empty()) out += cat("  left out: ", join_first(catalog.left_out, 5), "\n");
  return out;
}

}  // namespace loadstone
