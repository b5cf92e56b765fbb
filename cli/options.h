#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "loadstone/format/writers/writer.h"
#include "loadstone/load.h"

namespace loadstone::cli {

/// What was typed, as text. Read into values (and refused) by the functions below, so that every bad value is an
/// Error{usage} in our words.
struct Options {
  using Text = std::optional<std::string>;

  bool json = false;
  std::vector<std::string> paths;

  // the data set
  std::vector<std::string> arrays, columns;
  bool raw = false, allow_gaps = false, keep_order = false, mixed_formats = false, strict = false;
  Text dtype, row_shape, shape, offset, order, format, files_from, expect_files, expect_rows, fill;

  // where it goes
  Text mesh, spec, spec_file, devices, uneven;

  // how
  Text strategy, over_decompose, memory_budget, window, threads;
  bool explain = false;
  Text trace, svg;

  // what is proven and left behind
  std::string verify;  // "", full or source
  Text manifest, dump, dump_each, output;

  // write, bench
  Text seed, shards, rounds;
  bool write_uneven = false, replace = false;

  // convert, write
  Text to_format, compress, chunks, rows_per_shard, shard_bytes, name;
  bool verify_written = false;
};

/// Groups of options. Each verb adds those that mean something to it.
/// `format` is what the option for the format of these files is called; `positional` the words.
void add_source_options(Arguments& args, Options& options, const std::string& format = "--format",
                        const std::string& positional = "PATH");
/// --compress and --chunks.
void add_storage_options(Arguments& args, Options& options);
StorageOptions storage_options(const Options& options);
void add_sharding_options(Arguments& args, Options& options);
void add_plan_options(Arguments& args, Options& options);
void add_threads_option(Arguments& args, Options& options);

/// A decimal integer of at least `least`; Error{usage} naming `option` otherwise.
std::int64_t parse_count(const std::string& text, std::string_view option, std::int64_t least);
/// As above; `fallback` when it was not given.
std::int64_t count_or(const Options::Text& text, std::string_view option, std::int64_t least, std::int64_t fallback);
/// Workers: --threads or available_cores().
int thread_count(const Options& options);

/// Error{usage} for anything malformed; touches no file.
DiscoverOptions discover_options(const Options& options);
PlanOptions plan_options(const Options& options);
/// Error{usage} for options that say nothing to the formats found (--strict of npy files).
void check_format_options(const Options& options, const Catalog& catalog);
/// The arrays asked for, as indices into the catalog: those named, or the only one, or with --spec-file all.
std::vector<std::int64_t> chosen_arrays(const Options& options, const Catalog& catalog);

/// --mesh, --spec, --spec-file, --devices and --uneven, checked and read before any data file is touched.
class Placing {
 public:
  explicit Placing(const Options& options);
  std::int64_t num_devices() const { return static_cast<std::int64_t>(devices_.size()); }
  /// The sharding of the array of this name. Error{usage} when no pattern of --spec-file matches it.
  Sharding of_array(const std::string& name, std::int64_t ndim) const;

 private:
  void read_spec_file(const std::string& path);
  std::optional<Mesh> mesh_;
  std::vector<Device> devices_;
  std::vector<std::pair<std::string, PartitionSpec>> specs_;  // glob, spec; first match wins
  std::string spec_file_;
  Uneven uneven_ = Uneven::error;
  std::int64_t over_decompose_ = 1;
};

/// One request for each chosen array.
std::vector<ArrayRequest> requests(const Options& options, const Placing& placing, const Catalog& catalog);

}  // namespace loadstone::cli
