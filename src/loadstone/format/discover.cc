#include "loadstone/format/discover.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <unordered_set>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/gather.h"
#include "loadstone/format/index.h"
#include "loadstone/format/members.h"
#include "loadstone/format/names.h"
#include "loadstone/format/probe.h"
#include "loadstone/format/stack_arrays.h"

namespace loadstone {

namespace {

const Format* forced_format(const DiscoverOptions& options) {
  if (options.raw && !options.format.empty() && options.format != "raw") {
    throw usage_error(cat("--raw and --format ", printable(options.format), " exclude each other"));
  }
  const std::string name = options.raw ? "raw" : options.format;
  if (name.empty()) return nullptr;
  const Format* format = find_format(name);
  if (format != nullptr) return format;
  std::vector<std::string> known;
  for (const Format* each : all_formats()) known.emplace_back(each->name);
  const std::string near = nearest(name, known);
  throw usage_error(cat("unknown format '", printable(name), "'",
                        near.empty() ? "" : cat(", did you mean '", near, "'"), "; known: ", join(known, ", ")));
}

Sidecars read_sidecars(const std::vector<std::string>& paths) {
  Sidecars out;
  for (const std::string& path : paths) {
    const std::string_view folder = folder_of(path);
    if (out.contains(folder)) continue;
    FolderSidecar& beside = out[std::string(folder)];
    try {
      beside.sidecar = read_sidecar(std::string(folder));
    } catch (const Error& error) {
      beside.fault = error;
    }
  }
  return out;
}

/// Raw files need a dtype and a shape from somewhere: said once, before anything is opened.
void require_raw_hints(const std::vector<std::string>& paths, const DiscoverOptions& options,
                       const Sidecars& sidecars) {
  for (const std::string& path : paths) {
    const ReadHints hints = hints_for(path, options, sidecars);
    if (!hints.dtype) {
      throw file_usage_error(path,
                             "raw bytes do not tell their dtype: give --dtype, or a shard_meta.json beside the files");
    }
    if (!enough_for_raw(hints)) {
      throw file_usage_error(
          path, "raw bytes do not tell their shape: give --row-shape (or --shape, the whole shape of each file)");
    }
  }
}

/// The stacking order of all members, with what the names tell.
struct Stacked {
  std::vector<std::size_t> files;  ///< candidate numbers
  bool complete_by_name = false;
  std::string stem;
};

/// Names without what tells their formats apart, when several formats make one set: shard_0.npy, shard_1.h5.
void strip_extensions(std::vector<std::string>& names) {
  const std::string first = names.empty() ? "" : extension_of(names.front());
  if (std::all_of(names.begin(), names.end(), [&](const std::string& name) { return extension_of(name) == first; })) {
    return;
  }
  for (std::string& name : names) name.resize(name.size() - extension_of(name).size());
}

Stacked stack(const Candidates& all, const Members& members, const DiscoverOptions& options,
              std::vector<std::string>& notes) {
  Stacked out;
  for (std::size_t s = 0; s < all.segments.size(); ++s) {
    std::vector<std::string> names;
    for (const std::size_t i : members.of_segment[s]) names.push_back(all.paths[i]);
    if (options.mixed_formats) strip_extensions(names);
    OrderRules rules;
    rules.explicit_list = all.segments[s].kind == Segment::Kind::list;
    rules.keep_order = options.keep_order;
    rules.allow_gaps = options.allow_gaps;
    FileOrder order = order_files(names, rules);
    for (const std::size_t k : order.order) out.files.push_back(members.of_segment[s][k]);
    std::move(order.notes.begin(), order.notes.end(), std::back_inserter(notes));
    if (all.segments.size() == 1) {
      out.complete_by_name = order.complete_by_name;
      out.stem = order.stem;
    }
  }
  if (all.segments.size() > 1 && !options.keep_order) {
    std::unordered_set<std::string_view> seen;
    for (const std::size_t i : out.files) {
      if (!seen.insert(all.paths[i]).second) throw file_usage_error(all.paths[i], "is listed twice");
    }
  }
  return out;
}

std::string described(const RowType& type, std::int64_t rows) {
  if (type.scalar) return "()";
  Shape shape{rows};
  for (const std::int64_t extent : type.trailing) shape.push_back(extent);
  return to_string(shape);
}

/// D4, D5, D6: every file against the first, all bad ones together.
void compare(const Candidates& all, const Probes& probes, const Stacked& stacked) {
  const Probe& first = probes.files[stacked.files[0]];
  const RowType& want = probes.row_types[static_cast<std::size_t>(first.row_type)];
  if (stacked.files.size() == 1) return;
  const std::string first_name = in_quotes(all.paths[stacked.files[0]]);
  std::vector<Error> faults;
  for (const std::size_t i : stacked.files) {
    const Probe& probe = probes.files[i];
    if (probe.row_type == first.row_type && !want.scalar) continue;
    const RowType& type = probes.row_types[static_cast<std::size_t>(probe.row_type)];
    const std::string& path = all.paths[i];
    const std::string found = described(type, probe.rows);
    const std::string expected = described(want, first.rows);
    if (type.scalar) {
      faults.push_back(
          file_error(path, "is a 0-d array (a scalar): it has no axis 0 to stack along", "rows", "a scalar"));
    } else if (type.dtype != want.dtype) {
      faults.push_back(file_error(path,
                                  cat("dtype differs from ", first_name, ": expected ", to_string(want.dtype),
                                      ", found ", to_string(type.dtype), " (loading does not cast)"),
                                  to_string(want.dtype), to_string(type.dtype)));
    } else if (!want.scalar && type.trailing.size() != want.trailing.size()) {
      faults.push_back(
          file_error(path,
                     cat("number of dimensions differs from ", first_name, ": expected ", want.trailing.size() + 1,
                         " as in shape ", expected, ", found ", type.trailing.size() + 1, " in shape ", found),
                     expected, found));
    } else if (!want.scalar) {
      faults.push_back(
          file_error(path,
                     cat("shape of a row differs from ", first_name, ": expected ", to_string(want.trailing),
                         " as in shape ", expected, ", found ", to_string(type.trailing), " in shape ", found),
                     to_string(want.trailing), to_string(type.trailing)));
    }
  }
  if (!faults.empty()) throw_faults(faults);
}

std::string folder_name(const std::string& folder) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(folder.empty() ? "." : folder.c_str(), nullptr),
                                                         &std::free);
  return std::string(base_name(real ? std::string_view(real.get()) : std::string_view(folder)));
}

std::string array_name(const Candidates& all, const Stacked& stacked, const DiscoverOptions& options) {
  if (!options.name.empty()) return options.name;
  if (!stacked.stem.empty()) return stacked.stem;
  const std::string& first = all.paths[stacked.files[0]];
  const Segment& segment = all.segments[0];
  if (segment.kind == Segment::Kind::folder || stacked.files.size() > 1) {
    std::string name = folder_name(std::string(folder_of(first)));
    if (!name.empty() && name != "/") return name;
  }
  const std::string_view base = base_name(first);
  return std::string(base.substr(0, base.size() - extension_of(base).size()));
}

/// The header that a probe of a plain file was made of.
Header header_of(const Probe& probe, const RowType& type) {
  Header out;
  out.dtype = type.dtype;
  if (!type.scalar) out.shape.push_back(probe.rows);
  for (const std::int64_t extent : type.trailing) out.shape.push_back(extent);
  out.byte_order = probe.byte_order;
  out.order = probe.order;
  out.offset_bytes = probe.offset_bytes;
  return out;
}

/// The set when some of its files hold more than one plain array.
Catalog assemble_contents(const Candidates& all, Probes& probes, const Stacked& stacked,
                          const DiscoverOptions& options) {
  std::vector<StackPart> parts;
  for (const std::size_t i : stacked.files) {
    const Probe& probe = probes.files[i];
    StackPart part{all.paths[i], probe.stamp, all_formats()[static_cast<std::size_t>(probe.format)]->name, {}, {}};
    if (probe.row_type >= 0) {
      part.headers.push_back(header_of(probe, probes.row_types[static_cast<std::size_t>(probe.row_type)]));
    } else {
      Contents& contents = probes.contents.at(i);
      part.headers = std::move(contents.headers);
      part.files = std::move(contents.files);
    }
    parts.push_back(std::move(part));
  }
  return stack_arrays(std::move(parts), options.name, array_name(all, stacked, options));
}

Catalog assemble(const Candidates& all, const Probes& probes, const Stacked& stacked, const DiscoverOptions& options) {
  Catalog out;
  const Probe& first = probes.files[stacked.files[0]];
  const RowType& type = probes.row_types[static_cast<std::size_t>(first.row_type)];
  ArrayEntry array;
  array.name = array_name(all, stacked, options);
  array.format = std::string(all_formats()[static_cast<std::size_t>(first.format)]->name);
  array.dtype = type.dtype;
  array.tiling = Tiling(type.trailing);
  for (const std::size_t i : stacked.files) {
    const Probe& probe = probes.files[i];
    const std::int32_t file = out.files.add(all.paths[i], probe.stamp);
    if (probe.format != first.format) array.format = "mixed";
    try {
      array.tiling.add_plain(probe.rows, file, probe.offset_bytes, probe.byte_order, probe.order);
    } catch (const Error& error) {
      throw as_file_error(all.paths[i], error);
    }
  }
  if (type.scalar) array.tiling.set_scalar();
  array.shape = array.tiling.shape();
  check_total(array);
  out.arrays.push_back(std::move(array));
  return out;
}

void check_expected(const Catalog& catalog, const Stacked& stacked, const DiscoverOptions& options) {
  const auto check = [](std::string_view what, std::int64_t expected, std::int64_t found) {
    if (expected == found) return;
    throw data_error(cat("the set is incomplete or holds too much: expected ", expected, " ", what, ", found ", found),
                     {{}, cat(expected, " ", what), cat(found, " ", what), 0});
  };
  if (options.expect_files) check("files", *options.expect_files, static_cast<std::int64_t>(stacked.files.size()));
  for (const ArrayEntry& array : catalog.arrays) {
    if (options.expect_rows) check("rows", *options.expect_rows, array.tiling.row_bounds().back());
  }
}

void add_notes(const Probes& probes, const Sidecars& sidecars, Catalog& out) {
  for (const auto& [text, where] : probes.notes) {
    const auto& [file, count] = where;
    out.notes.push_back(cat(in_quotes(file), ": ", text, count > 1 ? cat(", in ", count, " files") : ""));
  }
  for (const auto& [folder, beside] : sidecars) {
    if (beside.fault) out.notes.push_back(cat("the sidecar is not used: ", beside.fault->message()));
  }
}

}  // namespace

const Format* find_format(std::string_view name) {
  for (const Format* format : all_formats()) {
    if (format->name == name) return format;
  }
  return nullptr;
}

const Format* find_store_format(const std::string& folder) {
  for (const Format* format : all_formats()) {
    if (format->recognise_store != nullptr && format->recognise_store(folder)) return format;
  }
  return nullptr;
}

Catalog discover(const std::vector<std::string>& paths, const DiscoverOptions& options, const ThreadPool& pool) {
  const Format* forced = forced_format(options);
  if (forced == nullptr && options.files_from.empty()) {
    if (const std::string index = find_index(paths); !index.empty()) {
      return discover_index(read_index(index), options, pool);
    }
  }
  Gathered gathered;
  {
    const TraceScope scope(options.trace, "gather names", "discover");
    gathered = gather(paths, options.files_from);
    if (forced != nullptr && forced->name == "raw") {
      for (Segment& segment : gathered.segments) {
        if (segment.kind != Segment::Kind::folder) continue;
        segment.paths = raw_files(segment.origin, std::move(segment.paths), gathered.left_out);
      }
    }
  }
  const Candidates all = flatten(std::move(gathered.segments));
  const Sidecars sidecars = read_sidecars(all.paths);
  if (forced != nullptr && forced->name == "raw") require_raw_hints(all.paths, options, sidecars);
  Probes probes;
  {
    TraceScope scope(options.trace, "read headers", "discover");
    scope.arg("files", std::to_string(all.paths.size()));
    probes = probe_files(all.paths, options, forced, sidecars, pool);
  }
  const TraceScope scope(options.trace, "stack files", "discover");
  Members members = choose_members(all, probes, options, forced, sidecars);
  const Stacked stacked = stack(all, members, options, gathered.notes);
  Catalog out;
  if (std::any_of(stacked.files.begin(), stacked.files.end(),
                  [&](std::size_t i) { return probes.files[i].row_type < 0; })) {
    out = assemble_contents(all, probes, stacked, options);
  } else {
    compare(all, probes, stacked);
    out = assemble(all, probes, stacked, options);
  }
  check_expected(out, stacked, options);
  out.counters = probes.counters;
  out.notes = std::move(gathered.notes);
  add_notes(probes, sidecars, out);
  out.left_out = std::move(gathered.left_out);
  std::move(members.left_out.begin(), members.left_out.end(), std::back_inserter(out.left_out));
  out.completeness_checked = options.expect_files || options.expect_rows || stacked.complete_by_name;
  if (!out.completeness_checked) {
    out.notes.emplace_back(
        "completeness not checked: a missing last file cannot be seen (--expect-files, --expect-rows)");
  }
  return out;
}

}  // namespace loadstone
