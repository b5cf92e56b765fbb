#include "cli/options.h"

#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {

namespace {

std::int64_t parse_size(const std::string& text, std::string_view option) {
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    throw error.with_prefix(option);
  }
}

}  // namespace

void add_source_options(Arguments& args, Options& o, const std::string& format, const std::string& positional) {
  args.positionals(positional, o.paths, "a directory, files, or a quoted glob pattern; what exists is taken literally");
  args.group("The data set");
  args.list("--array,--dataset,--tensor,--column", o.arrays, "NAME", "arrays by name; repeat or separate by commas");
  args.text(format, o.format, "NAME", "take the files for this format instead of looking at their content");
  args.text("--files-from", o.files_from, "LIST",
            "read paths from LIST, one a line, relative to LIST; their order is kept");
  args.flag("--raw", o.raw, "the files are plain elements without a header (needs --dtype and a shape)");
  args.text("--dtype", o.dtype, "TYPE", "element type of raw files, or one the file has lost: float32, >i2, bfloat16");
  args.text("--row-shape", o.row_shape, "A,B", "raw: shape of one row; the rows follow from the size");
  args.text("--shape", o.shape, "A,B", "raw: whole shape of each file");
  args.text("--offset", o.offset, "N", "raw: bytes before the elements, in each file");
  args.text("--order", o.order, "C|F", "raw: order of the elements in each file (default C)");
  args.flag("--allow-gaps", o.allow_gaps, "accept holes in the numbering");
  args.flag("--keep-order", o.keep_order, "keep the order given, even where the numbers do not ascend");
  args.text("--expect-files", o.expect_files, "N", "fail unless the array has this many files");
  args.text("--expect-rows", o.expect_rows, "N", "fail unless the array has this many rows");
  args.flag("--mixed-formats", o.mixed_formats, "accept several formats in one set");
  args.flag("--strict", o.strict, "zarr, hdf5: an absent or unallocated chunk is an error");
  args.text("--fill", o.fill, "VALUE", "zarr, parquet, arrow: value of nulls and of absent chunks without a fill");
  args.list("--columns", o.columns, "A,B", "parquet: these columns as one 2-D array");
  args.group("Options");
}

void add_sharding_options(Arguments& args, Options& o) {
  args.group("Where it goes");
  args.text("--mesh", o.mesh, "x=2,y=4", "axes of the device mesh and their sizes");
  args.text("--spec", o.spec, "x,-,y+z",
            "mesh axes of each dimension: - is not split, x+y is one dimension over two axes, the first slowest");
  args.text("--spec-file", o.spec_file, "FILE", "JSON object {array pattern: spec}; the first match wins");
  args.text("--devices", o.devices, "0,1,2,3", "devices in mesh order (default cpu:0 …); alone: tiles of rows");
  args.text("--uneven", o.uneven, "error|ceil", "what to do where a dimension does not divide (default error)");
  args.group("Options");
}

void add_storage_options(Arguments& args, Options& o) {
  args.text(
      "--compress", o.compress, "CODEC[:LEVEL]",
      "npz: deflate; hdf5: deflate, shuffle+deflate; zarr: gzip, zstd, zarr2 also zlib; arrow: lz4, zstd; parquet: "
      "snappy, gzip, zstd, lz4, brotli");
  args.text("--chunks", o.chunks, "A,B", "zarr, hdf5: shape of a chunk; arrow, parquet: rows of a group");
}

StorageOptions storage_options(const Options& o) {
  StorageOptions out;
  if (o.compress) {
    const std::vector<std::string> parts = split(*o.compress, ':');
    out.compress = parts[0];
    if (out.compress.empty() || parts.size() > 2) {
      throw usage_error(cat("--compress: expected CODEC or CODEC:LEVEL, found '", printable(*o.compress), "'"));
    }
    if (parts.size() == 2) {
      constexpr std::int64_t kMost = 22;
      const std::int64_t level = parse_count(parts[1], "--compress", 0);
      if (level > kMost) throw usage_error(cat("--compress: expected a level up to ", kMost, ", found ", level));
      out.level = static_cast<int>(level);
    }
  }
  if (o.chunks) out.chunks = parse_shape(*o.chunks, "--chunks");
  return out;
}

void add_threads_option(Arguments& args, Options& o) {
  args.text("--threads", o.threads, "N", "workers (default: the cores that affinity and quota give)");
}

void add_plan_options(Arguments& args, Options& o) {
  args.group("How");
  args.text("--strategy", o.strategy, "NAME", "auto, global, per_device or per_process (default auto)");
  args.text("--over-decompose", o.over_decompose, "K", "cut each device's part into at least K windows or tiles");
  args.text("--memory-budget", o.memory_budget, "SIZE", "refuse a plan whose peak host memory is above this");
  args.text("--window", o.window, "SIZE", "bytes of one unit of work (default 4MiB)");
  add_threads_option(args, o);
  args.flag("--explain", o.explain, "show each strategy considered, with its numbers and the reason");
  args.group("Options");
}

std::int64_t parse_count(const std::string& text, std::string_view option, std::int64_t least) {
  std::int64_t value = 0;
  if (!parse_int(text, value) || value < least) {
    throw usage_error(cat(option, ": expected an integer >= ", least, ", found '", printable(text), "'"),
                      {.file = "", .expected = cat("an integer >= ", least), .found = printable(text)});
  }
  return value;
}

std::int64_t count_or(const Options::Text& text, std::string_view option, std::int64_t least, std::int64_t fallback) {
  return text ? parse_count(*text, option, least) : fallback;
}

int thread_count(const Options& o) {
  constexpr std::int64_t kMost = 1024;
  if (!o.threads) return available_cores();
  const std::int64_t threads = parse_count(*o.threads, "--threads", 1);
  if (threads > kMost) throw usage_error(cat("--threads: expected at most ", kMost, ", found ", threads));
  return static_cast<int>(threads);
}

DiscoverOptions discover_options(const Options& o) {
  DiscoverOptions out;
  if (o.paths.empty() && !o.files_from) {
    throw usage_error("no PATH given: name a directory, files or a quoted pattern, or use --files-from LIST");
  }
  if (!o.paths.empty() && o.files_from) {
    throw usage_error("--files-from: the list stands for PATH; give one of the two");
  }
  for (const std::string& path : o.paths) {
    if (path.empty()) throw usage_error("PATH: expected a name, found ''");
  }
  out.format = o.format.value_or("");
  if (o.format && o.format->empty()) throw usage_error("--format: expected a name, found ''");
  if (o.raw && o.format && *o.format != "raw") {
    throw usage_error(cat("--raw and --format ", printable(*o.format), " contradict each other"));
  }
  out.raw = o.raw;
  try {
    if (o.dtype) out.hints.dtype = parse_dtype(*o.dtype);
  } catch (const Error& error) {
    throw error.with_prefix("--dtype");
  }
  if (o.row_shape && o.shape) throw usage_error("--row-shape and --shape exclude each other: give one of the two");
  if (o.row_shape) out.hints.row_shape = parse_shape(*o.row_shape, "--row-shape");
  if (o.shape) out.hints.shape = parse_shape(*o.shape, "--shape");
  if (o.offset) out.hints.offset_bytes = parse_count(*o.offset, "--offset", 0);
  if (o.order) {
    if (*o.order != "C" && *o.order != "F") {
      throw usage_error(cat("--order: expected C or F, found '", printable(*o.order), "'"));
    }
    out.hints.order = *o.order == "F" ? ElementOrder::f : ElementOrder::c;
  }
  for (const std::string& name : o.arrays) {
    if (name.empty()) throw usage_error("--array: expected a name, found ''");
  }
  out.hints.arrays = o.arrays;
  out.hints.columns = o.columns;
  out.hints.fill = o.fill;
  out.hints.strict = o.strict;
  if (!o.columns.empty() && !o.arrays.empty()) {
    throw usage_error("--columns and --array exclude each other: --columns makes one array of all");
  }
  out.files_from = o.files_from.value_or("");
  if (o.files_from && o.files_from->empty()) throw usage_error("--files-from: expected a file, found ''");
  out.allow_gaps = o.allow_gaps;
  out.keep_order = o.keep_order;
  if (o.expect_files) out.expect_files = parse_count(*o.expect_files, "--expect-files", 0);
  if (o.expect_rows) out.expect_rows = parse_count(*o.expect_rows, "--expect-rows", 0);
  out.mixed_formats = o.mixed_formats;
  return out;
}

PlanOptions plan_options(const Options& o) {
  PlanOptions out;
  if (o.strategy) out.strategy = parse_strategy(*o.strategy);
  out.over_decompose = count_or(o.over_decompose, "--over-decompose", 1, 1);
  if (o.memory_budget) out.memory_budget = parse_size(*o.memory_budget, "--memory-budget");
  if (o.window) {
    constexpr std::int64_t kLeast = 1, kMost = std::int64_t{1} << 30;
    out.window_bytes = parse_size(*o.window, "--window");
    if (out.window_bytes < kLeast || out.window_bytes > kMost) {
      throw usage_error(cat("--window: expected 1 to ", kMost, " bytes, found ", out.window_bytes));
    }
  }
  out.threads = thread_count(o);
  return out;
}

void check_format_options(const Options& o, const Catalog& catalog) {
  const auto demand = [&](bool given, std::string_view option, const std::vector<std::string_view>& formats) {
    if (!given) return;
    for (const ArrayEntry& array : catalog.arrays) {
      if (array.format == "mixed") continue;
      if (std::find(formats.begin(), formats.end(), array.format) != formats.end()) continue;
      std::vector<std::string> names(formats.begin(), formats.end());
      throw usage_error(
          cat(option, " is for ", join(names, ", "), ": array '", printable(array.name), "' is ", array.format));
    }
  };
  demand(o.strict, "--strict", {"zarr", "hdf5"});
  demand(o.fill.has_value(), "--fill", {"zarr", "parquet", "arrow"});
  demand(!o.columns.empty(), "--columns", {"parquet"});
}

std::vector<std::int64_t> chosen_arrays(const Options& o, const Catalog& catalog) {
  std::vector<std::int64_t> out;
  if (o.arrays.empty() && o.spec_file) {
    for (std::size_t a = 0; a < catalog.arrays.size(); ++a) out.push_back(static_cast<std::int64_t>(a));
  } else if (o.arrays.empty()) {
    out.push_back(catalog.index_of(catalog.array().name));
  }
  for (const std::string& name : o.arrays) {
    const std::int64_t index = catalog.index_of(name);
    if (std::find(out.begin(), out.end(), index) != out.end()) {
      throw usage_error(cat("--array: '", printable(name), "' is named twice"));
    }
    out.push_back(index);
  }
  return out;
}

Placing::Placing(const Options& o) {
  over_decompose_ = count_or(o.over_decompose, "--over-decompose", 1, 1);
  if (o.uneven) {
    if (*o.uneven != "error" && *o.uneven != "ceil") {
      throw usage_error(cat("--uneven: expected error or ceil, found '", printable(*o.uneven), "'"));
    }
    uneven_ = *o.uneven == "ceil" ? Uneven::ceil : Uneven::error;
  }
  if (o.spec && o.spec_file) throw usage_error("--spec and --spec-file exclude each other: give one of the two");
  if ((o.spec || o.spec_file) && !o.mesh) {
    throw usage_error(cat(o.spec ? "--spec" : "--spec-file", " needs --mesh: the axes and their sizes, as x=2,y=4"));
  }
  if (o.devices) devices_ = parse_devices(*o.devices);
  if (!o.mesh) {
    if (o.uneven && o.devices && uneven_ == Uneven::error && devices_.size() > 1) {
      throw usage_error("--uneven error needs --mesh: tiles of rows over --devices alone are always uneven");
    }
    if (!o.devices) devices_ = {Device{}};
    return;
  }
  auto [names, sizes] = parse_mesh(*o.mesh);
  mesh_ = o.devices ? Mesh(std::move(names), sizes, devices_) : Mesh::of_cpus(std::move(names), sizes);
  devices_ = mesh_->devices();
  if (!o.spec && !o.spec_file) {
    if (devices_.size() > 1) {
      throw usage_error("--mesh needs --spec: which axes split which dimension (--spec - copies all to every device)");
    }
    specs_.emplace_back("*", parse_spec("-"));  // on a mesh of one device there is nothing to split
  }
  if (o.spec) specs_.emplace_back("*", parse_spec(*o.spec));
  if (o.spec_file) read_spec_file(*o.spec_file);
}

void Placing::read_spec_file(const std::string& path) {
  spec_file_ = path;
  const std::string shown = printable(path);
  const nlohmann::ordered_json json =
      nlohmann::ordered_json::parse(read_small_file(path, "--spec-file"), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw data_error(cat("'", shown, "': expected a JSON object {array pattern: spec}"),
                     {.file = path, .expected = "a JSON object", .found = json.type_name()});
  }
  for (const auto& [pattern, spec] : json.items()) {
    if (!spec.is_string()) {
      throw data_error(
          cat("'", shown, "': pattern '", printable(pattern), "': expected a spec as text, found ", spec.type_name()),
          {.file = path, .expected = "a string", .found = spec.type_name()});
    }
    try {
      specs_.emplace_back(pattern, parse_spec(spec.get<std::string>()));
    } catch (const Error& error) {
      throw error.with_prefix(cat("'", shown, "': pattern '", printable(pattern), "'"));
    }
  }
}

Sharding Placing::of_array(const std::string& name, std::int64_t ndim) const {
  if (!mesh_) {
    if (devices_.size() == 1 && (ndim == 0 || over_decompose_ == 1)) return Sharding::single(devices_.front());
    return Sharding::row_tiles(devices_, over_decompose_);
  }
  for (const auto& [pattern, spec] : specs_) {
    if (spec_file_.empty() || fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return {*mesh_, spec, uneven_};
  }
  throw usage_error(cat("'", printable(spec_file_), "': no pattern matches array '", printable(name),
                        "': add one, \"*\": \"\" for all others"),
                    {.file = spec_file_, .expected = "a pattern for every array", .found = printable(name)});
}

std::vector<ArrayRequest> requests(const Options& o, const Placing& placing, const Catalog& catalog) {
  std::vector<ArrayRequest> out;
  for (const std::int64_t index : chosen_arrays(o, catalog)) {
    const ArrayEntry& array = catalog.arrays[static_cast<std::size_t>(index)];
    Sharding sharding = placing.of_array(array.name, array.shape.size());
    sharding.check(array.shape, array.name);
    out.push_back({index, std::move(sharding)});
  }
  return out;
}

}  // namespace loadstone::cli
