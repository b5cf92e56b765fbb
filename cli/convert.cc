#include "loadstone/convert.h"

#include <algorithm>

#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {
namespace {

void add(Arguments& args, Options& o) {
  add_source_options(args, o, "--source-format", "SRC... DST");
  args.group("What is made");
  args.text(
      "--format", o.to_format, "NAME",
      "npy, raw, npz, safetensors, arrow, parquet, hdf5, zarr or zarr2 (default: by DST's extension, else SRC's)");
  args.text("--shards", o.shards, "N", "this many files, of rows as equal as can be");
  args.text("--rows-per-shard", o.rows_per_shard, "R", "files of R rows, the last with the rest");
  args.text("--shard-bytes", o.shard_bytes, "SIZE", "files of as many rows as fit into SIZE");
  add_storage_options(args, o);
  args.flag("--replace", o.replace, "replace DST: what an earlier write or convert made, or a file");
  args.group("How");
  args.flag("--verify", o.verify_written, "compare digests of what was read and what was written, before DST is there");
  args.text("--memory-budget", o.memory_budget, "SIZE", "use no more than this; refuse when that is not possible");
  add_threads_option(args, o);
  args.group("Options");
}

int run(Session& session) {
  Options source = session.options;
  if (source.paths.empty()) throw usage_error("expected SRC and DST: what to convert, and where to");
  const std::string destination = source.paths.back();
  source.paths.pop_back();
  if (destination.empty()) throw usage_error("DST: expected a name, found ''");
  if (source.paths.empty() && !source.files_from) {
    throw usage_error(cat("expected SRC and DST, found only '", printable(destination), "'"));
  }
  const Options& o = source;
  ConvertOptions options;
  options.format = o.to_format.value_or("");
  if (o.to_format) writer_named(*o.to_format);
  if (o.shards) options.shards = parse_count(*o.shards, "--shards", 1);
  if (o.rows_per_shard) options.rows_per_shard = parse_count(*o.rows_per_shard, "--rows-per-shard", 1);
  const auto size = [](const std::string& text, std::string_view option) {
    try {
      return parse_bytes(text);
    } catch (const Error& error) {
      throw error.with_prefix(option);
    }
  };
  if (o.shard_bytes) options.shard_bytes = size(*o.shard_bytes, "--shard-bytes");
  if (o.memory_budget) options.memory_budget = size(*o.memory_budget, "--memory-budget");
  options.storage = storage_options(o);
  options.replace = o.replace;
  options.verify = o.verify_written;
  options.threads = thread_count(o);
  options.cancel = session.cancel;
  options.progress = session.progress.function();

  DiscoverOptions discover = discover_options(o);
  discover.cancel = session.cancel;
  discover.progress = session.progress.function();
  const Catalog catalog = open(o.paths, discover, options.threads);
  check_format_options(o, catalog);
  session.notes = catalog.notes;
  if (!catalog.left_out.empty()) session.notes.push_back(cat("left out: ", join_first(catalog.left_out, 5)));
  for (const std::string& name : o.arrays) {
    const std::int64_t index = catalog.index_of(name);
    if (std::find(options.arrays.begin(), options.arrays.end(), index) != options.arrays.end()) {
      throw usage_error(cat("--array: '", printable(name), "' is named twice"));
    }
    options.arrays.push_back(index);
  }
  const ConvertReport report = convert(catalog, destination, options);
  session.progress.clear();
  session.notes.insert(session.notes.end(), report.notes.begin(), report.notes.end());

  Json arrays = Json::array(), files = Json::array();
  for (std::size_t a = 0; a < report.arrays.size(); ++a) {
    const NewArray& array = report.arrays[a];
    Json rows = Json::array();
    for (const auto& of_file : report.rows) rows.push_back(of_file[a]);
    Json entry{{"name", json_text(array.name)},
               {"shape", json_dims(array.shape)},
               {"dtype", to_string(array.dtype)},
               {"bytes", bytes_of(array)},
               {"rows", std::move(rows)}};
    if (options.verify) entry["digest"] = report.digests[a];
    arrays.push_back(std::move(entry));
    session.line(cat(printable(array.name), ": ", to_string(array.shape), " ", to_string(array.dtype), ", ",
                     format_bytes(bytes_of(array)), options.verify ? cat(", ", report.digests[a]) : std::string()));
  }
  for (const std::string& file : report.files) files.push_back(json_text(file));
  session.json["destination"] = json_text(destination);
  session.json["format"] = report.format;
  session.json["arrays"] = std::move(arrays);
  session.json["files"] = std::move(files);
  session.json["file_bytes"] = report.bytes;
  session.json["peak_bytes"] = report.peak_bytes;
  session.json["verified"] = options.verify;
  session.line(cat("wrote ", format_bytes(report.bytes), " of ", report.format, " in ", report.files.size(),
                   report.files.size() == 1 ? " file" : " files", " to '", printable(destination), "'",
                   options.verify ? ", verified" : ""));
  return kGood;
}

}  // namespace

extern const Verb convert_verb;
const Verb convert_verb{"convert", "Write a data set anew, in another format or other shards",
                        "  loadstone convert shards/ data.h5 --compress shuffle+deflate --verify\n"
                        "  loadstone convert 'x/*.parquet' out/ --format npy --array label --shards 8\n"
                        "  loadstone convert model.safetensors model.zarr\n",
                        add, run};

}  // namespace loadstone::cli
