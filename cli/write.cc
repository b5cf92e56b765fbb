#include "loadstone/format/write.h"

#include <algorithm>

#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/base/thread_pool.h"

namespace loadstone::cli {
namespace {

void add(Arguments& args, Options& o) {
  args.positionals("DIR", o.paths, "the directory to write into");
  args.text("--shape", o.shape, "A,B", "shape of the whole array");
  args.text("--dtype", o.dtype, "TYPE", "element type (default float32)");
  args.text("--shards", o.shards, "N", "number of files (default 1)");
  args.flag("--uneven", o.write_uneven, "rows differ from file to file");
  args.text("--seed", o.seed, "N", "the values follow from this and their place alone (default 0)");
  args.text("--format", o.format, "NAME",
            "npy, raw, npz, safetensors, arrow, parquet, hdf5, zarr or zarr2 (default npy)");
  args.text("--name", o.name, "NAME", "of the array, in files that hold names (default data)");
  add_storage_options(args, o);
  args.flag("--replace", o.replace, "first remove the files that an earlier write has listed in the directory");
  add_threads_option(args, o);
}

int run(Session& session) {
  const Options& o = session.options;
  if (o.paths.size() != 1) {
    throw usage_error(cat("expected one DIR to write into, found ", o.paths.size()));
  }
  const std::string& dir = o.paths.front();
  if (dir.empty()) throw usage_error("DIR: expected a name, found ''");
  if (!o.shape) throw usage_error("--shape is needed: the shape of the whole array, as 400000,1024");
  WriteOptions options;
  options.shape = parse_shape(*o.shape, "--shape");
  if (o.dtype) {
    const DiskType type = [&] {
      try {
        return parse_dtype(*o.dtype);
      } catch (const Error& error) {
        throw error.with_prefix("--dtype");
      }
    }();
    if (type.order == ByteOrder::big) {
      throw usage_error(cat("--dtype: write makes little-endian files, found '", printable(*o.dtype), "'"));
    }
    options.dtype = type.dtype;
  }
  options.shards = count_or(o.shards, "--shards", 1, 1);
  options.seed = static_cast<std::uint64_t>(count_or(o.seed, "--seed", 0, 0));
  options.uneven = o.write_uneven;
  options.format = o.format.value_or("npy");
  options.name = o.name.value_or(options.name);
  if (options.name.empty()) throw usage_error("--name: expected a name, found ''");
  options.storage = storage_options(o);
  options.replace = o.replace;
  options.cancel = session.cancel;
  options.progress = session.progress.function();
  const WriteReport report = write_dataset(dir, options, ThreadPool(thread_count(o)));
  session.progress.clear();

  Json files = Json::array(), rows = Json::array();
  for (const std::string& file : report.files) files.push_back(json_text(file));
  for (const std::int64_t count : report.rows) rows.push_back(count);
  session.json["directory"] = json_text(dir);
  session.json["format"] = options.format;
  session.json["shape"] = json_dims(options.shape);
  session.json["dtype"] = to_string(options.dtype);
  session.json["bytes"] = options.dtype.nbytes(num_elems(options.shape));
  session.json["file_bytes"] = report.bytes;
  session.json["rows"] = std::move(rows);
  session.json["files"] = std::move(files);
  session.line(cat("wrote ", to_string(options.shape), " ", to_string(options.dtype), ", ", format_bytes(report.bytes),
                   " in ", report.files.size(), report.files.size() == 1 ? " file" : " files", " to '", printable(dir),
                   "'"));
  return kGood;
}

}  // namespace

extern const Verb write_verb;
const Verb write_verb{"write", "Make a test data set of sharded files",
                      "  loadstone write demo/ --shape 400000,1024 --dtype float32 --shards 9 --uneven --seed 1\n"
                      "  loadstone write demo/ --shape 1000,64 --dtype int16 --shards 4 --format raw --replace\n"
                      "  loadstone write demo/ --shape 1000,64 --format hdf5 --compress deflate --chunks 100,64\n",
                      add, run};

}  // namespace loadstone::cli
