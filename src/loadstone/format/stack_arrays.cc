#include "loadstone/format/stack_arrays.h"

#include <algorithm>
#include <span>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"

namespace loadstone {

namespace {

constexpr std::size_t kShown = 8;

std::string names_of(const StackPart& part) {
  std::vector<std::string> names;
  for (const Header& header : part.headers) names.push_back(printable(header.name));
  return names.empty() ? "none" : join_first(names, kShown);
}

/// The array of this name in a part; one without a name answers to any.
Header* find(StackPart& part, std::string_view name) {
  if (part.headers.size() == 1 && (part.headers[0].name.empty() || name.empty())) return &part.headers[0];
  const auto it =
      std::find_if(part.headers.begin(), part.headers.end(), [&](const Header& header) { return header.name == name; });
  return it == part.headers.end() ? nullptr : &*it;
}

/// Every part holds the arrays of the first and no others.
void check_names(std::vector<StackPart>& parts) {
  std::vector<Error> faults;
  StackPart& first = parts.front();
  for (StackPart& part : parts) {
    for (const Header& header : first.headers) {
      if (find(part, header.name) != nullptr) continue;
      faults.push_back(file_error(part.path,
                                  cat("has no array ", in_quotes(header.name), ", which ", in_quotes(first.path),
                                      " has; it has: ", names_of(part)),
                                  header.name, names_of(part)));
    }
    for (const Header& header : part.headers) {
      if (find(first, header.name) != nullptr) continue;
      faults.push_back(file_error(part.path,
                                  cat("has an array ", in_quotes(header.name), ", which ", in_quotes(first.path),
                                      " lacks (--array names those to load)"),
                                  names_of(first), header.name));
    }
  }
  if (!faults.empty()) throw_faults(faults);
}

/// Why this array cannot be stacked onto the first of its name; nothing when it can.
void check_same(const Header& first, const StackPart& first_part, const Header& header, const StackPart& part) {
  const std::string whose = cat("array ", in_quotes(header.name), " ");
  const std::string other = in_quotes(first_part.path);
  if (header.shape.empty()) {
    throw file_error(part.path, cat(whose, "is a 0-d array (a scalar): it has no axis 0 to stack along"), "rows",
                     "a scalar");
  }
  if (header.dtype != first.dtype) {
    throw file_error(part.path,
                     cat(whose, "differs in dtype from that of ", other, ": expected ", to_string(first.dtype),
                         ", found ", to_string(header.dtype), " (loading does not cast)"),
                     to_string(first.dtype), to_string(header.dtype));
  }
  const bool same = header.shape.size() == first.shape.size() &&
                    std::equal(header.shape.begin() + 1, header.shape.end(), first.shape.begin() + 1);
  if (!same) {
    throw file_error(part.path,
                     cat(whose, "differs in the shape of a row from that of ", other, ": expected ",
                         to_string(first.shape), " but for the first dimension, found ", to_string(header.shape)),
                     to_string(first.shape), to_string(header.shape));
  }
}

std::int32_t add_encoding(ArrayEntry& array, Encoding encoding) {
  const auto it = std::find(array.encodings.begin(), array.encodings.end(), encoding);
  if (it != array.encodings.end()) return static_cast<std::int32_t>(it - array.encodings.begin());
  array.encodings.push_back(std::move(encoding));
  return static_cast<std::int32_t>(array.encodings.size()) - 1;
}

/// Files of a part in the catalog: itself, then those of a store.
struct PartFiles {
  std::int32_t self = -1, first = -1;
};

void add_part(ArrayEntry& array, Header header, const PartFiles& files) {
  const std::int64_t rows = header.shape.empty() ? 1 : header.shape[0];
  const std::int32_t encoding = header.encoding ? add_encoding(array, std::move(*header.encoding)) : -1;
  if (!header.grid) {
    const std::int32_t file = header.file < 0 ? files.self : files.first + header.file;
    array.tiling.add_plain(rows, file, header.offset_bytes, header.byte_order, header.order, encoding,
                           header.stored_bytes);
    return;
  }
  ChunkGrid grid = std::move(*header.grid);
  for (std::int32_t& file : grid.files) file += files.first;
  std::vector<std::int32_t> numbers;
  for (Encoding& each : header.chunk_encodings) numbers.push_back(add_encoding(array, std::move(each)));
  for (std::int32_t& each : grid.chunk_encodings) each = each < 0 ? -1 : numbers[static_cast<std::size_t>(each)];
  array.tiling.add_grid(rows, files.self, std::move(grid), header.byte_order, header.order, encoding);
}

/// Fill values matter where chunks are absent, so one that differs must not be mixed up with another.
void take_fill(ArrayEntry& array, Header& header, const StackPart& part) {
  if (array.fill.empty())
    array.fill = std::move(header.fill);
  else if (!header.fill.empty() && header.fill != array.fill) {
    throw file_error(part.path,
                     cat("array ", in_quotes(header.name), " has another fill value than the files before it"));
  }
}

ArrayEntry stack_one(std::span<StackPart> parts, std::span<const PartFiles> files, const std::string& name) {
  ArrayEntry out;
  Header first;
  first.dtype = find(parts.front(), name)->dtype;
  first.shape = find(parts.front(), name)->shape;
  out.name = name;
  out.format = parts.front().format;
  for (const StackPart& part : parts) {
    if (part.format != parts.front().format) out.format = "mixed";
  }
  out.dtype = first.dtype;
  if (!first.shape.empty()) out.tiling = Tiling(Shape(first.shape.span().subspan(1)));
  std::vector<Error> faults;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    StackPart& part = parts[p];
    Header& header = *find(part, name);
    try {
      if (parts.size() > 1) check_same(first, parts.front(), header, part);
      take_fill(out, header, part);
      add_part(out, std::exchange(header, Header{}), files[p]);
    } catch (const Error& error) {
      faults.push_back(error.facts().file.empty() ? as_file_error(part.path, error) : error);
    }
    header.name = name;  // it is looked for again by name only
  }
  if (!faults.empty()) throw_faults(faults);
  if (first.shape.empty()) out.tiling.set_scalar();
  out.shape = out.tiling.shape();
  check_total(out);
  return out;
}

std::vector<PartFiles> add_files(const std::vector<StackPart>& parts, Catalog& out) {
  std::vector<PartFiles> files;
  for (const StackPart& part : parts) {
    PartFiles& added = files.emplace_back();
    added.self = out.files.add(part.path, part.stamp);
    added.first = added.self + 1;
    for (std::int64_t f = 0; f < part.files.size(); ++f) out.files.add(part.files.path(f), part.files.stamp(f));
  }
  return files;
}

}  // namespace

void check_total(const ArrayEntry& array) {
  std::int64_t product = std::max<std::int64_t>(1, array.dtype.itemsize());
  for (const std::int64_t extent : array.shape) {
    const auto next = checked_mul(product, std::max<std::int64_t>(extent, 1));
    if (!next) {
      throw data_error(cat("the stacked array of shape ", to_string(array.shape), " has more than 2^63-1 bytes"));
    }
    product = *next;
  }
}

Catalog stack_arrays(std::vector<StackPart> parts, const std::string& name, const std::string& unnamed) {
  check_names(parts);
  Catalog out;
  const std::vector<PartFiles> files = add_files(parts, out);
  std::vector<std::string> names;
  for (const Header& header : parts.front().headers) names.push_back(header.name);
  // An unnamed first file takes the name that the others give (mixed formats).
  if (names.size() == 1 && names[0].empty()) {
    for (const StackPart& part : parts) {
      if (names[0].empty() && part.headers.size() == 1) names[0] = part.headers[0].name;
    }
  }
  for (const std::string& each : names) {
    ArrayEntry array = stack_one(parts, files, each);
    if (array.name.empty()) array.name = unnamed;
    if (names.size() == 1 && !name.empty()) array.name = name;
    out.arrays.push_back(std::move(array));
  }
  return out;
}

Catalog union_arrays(std::vector<StackPart> parts) {
  Catalog out;
  const std::vector<PartFiles> files = add_files(parts, out);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::vector<std::string> names;
    for (const Header& header : parts[p].headers) names.push_back(header.name);
    for (const std::string& name : names) {
      out.arrays.push_back(stack_one(std::span(parts).subspan(p, 1), std::span(files).subspan(p, 1), name));
    }
  }
  return out;
}

}  // namespace loadstone
