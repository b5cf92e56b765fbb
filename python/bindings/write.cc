#include "loadstone/format/write.h"
#include "common.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/convert.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace loadstone::python {

namespace {

/// Keyword arguments, of which None counts as not given.
class Given {
 public:
  explicit Given(nb::kwargs values) : values_(std::move(values)) {}
  bool has(const char* key) const { return values_.contains(key) && !nb::object(values_[key]).is_none(); }
  nb::object at(const char* key) const { return values_[key]; }
  template <typename T>
  void take(const char* key, T& target) const {
    if (has(key)) target = nb::cast<T>(values_[key]);
  }
  void take(const char* key, std::optional<std::int64_t>& target) const {
    if (has(key)) target = nb::cast<std::int64_t>(values_[key]);
  }

 private:
  nb::kwargs values_;
};

StorageOptions storage_of(const Given& given) {
  StorageOptions out;
  if (given.has("chunks")) out.chunks = dims_from(given.at("chunks"), "chunks");
  if (!given.has("compress")) return out;
  const std::vector<std::string> parts = split(nb::cast<std::string>(given.at("compress")), ':');
  out.compress = parts[0];
  std::int64_t level = -1;
  if (out.compress.empty() || parts.size() > 2 ||
      (parts.size() == 2 && (!parse_int(parts[1], level) || level < 0 || level > 22))) {
    throw usage_error("compress: expected 'codec' or 'codec:level', found '" +
                      printable(nb::cast<std::string>(given.at("compress"))) + "'");
  }
  out.level = static_cast<int>(level);
  return out;
}

std::vector<nb::str> write(nb::bytes dir, nb::object shape, const std::string& dtype, nb::object progress,
                           nb::kwargs values) {
  const Given given(std::move(values));
  WriteOptions options;
  options.shape = dims_from(shape, "shape");
  options.dtype = parse_dtype(dtype).dtype;
  int threads = 0;
  given.take("threads", threads);
  given.take("shards", options.shards);
  given.take("uneven", options.uneven);
  given.take("seed", options.seed);
  given.take("format", options.format);
  given.take("name", options.name);
  given.take("replace", options.replace);
  options.storage = storage_of(given);
  const std::string where = raw_bytes(dir);
  Session session(std::move(progress));
  options.cancel = session.cancel();
  options.progress = session.progress();
  const WriteReport report = session.run([&] { return write_dataset(where, options, ThreadPool(threads)); });
  std::vector<nb::str> out;
  for (const std::string& file : report.files) out.push_back(path_str(file));
  return out;
}

nb::dict convert_arrays(const std::shared_ptr<Catalog>& catalog, const std::vector<std::int64_t>& arrays, nb::bytes dst,
                        nb::object progress, nb::kwargs values) {
  const Given given(std::move(values));
  ConvertOptions options;
  options.arrays = arrays;
  given.take("threads", options.threads);
  given.take("format", options.format);
  given.take("shards", options.shards);
  given.take("rows_per_shard", options.rows_per_shard);
  given.take("shard_bytes", options.shard_bytes);
  given.take("memory_budget", options.memory_budget);
  given.take("replace", options.replace);
  given.take("verify", options.verify);
  options.storage = storage_of(given);
  const std::string where = raw_bytes(dst);
  Session session(std::move(progress));
  options.cancel = session.cancel();
  options.progress = session.progress();
  const ConvertReport report = session.run([&] { return convert(*catalog, where, options); });
  nb::dict out;
  out["format"] = report.format;
  out["files"] = path_strs(report.files);
  nb::list names;
  for (const NewArray& array : report.arrays) names.append(path_str(array.name));
  out["names"] = names;
  out["rows"] = nb::cast(report.rows);
  out["file_bytes"] = report.bytes;
  out["peak_bytes"] = report.peak_bytes;
  out["digests"] = nb::cast(report.digests);
  out["notes"] = path_strs(report.notes);
  return out;
}

}  // namespace

void bind_write(nb::module_& m) {
  m.def("write_dataset", &write, nb::arg("dir"), nb::arg("shape"), nb::arg("dtype"), nb::arg("progress").none(),
        nb::arg("options"),
        nb::sig("def write_dataset(dir: bytes, shape: int | typing.Sequence[int], dtype: str, progress: typing.Any, "
                "**options: typing.Any) -> list[str]"));
  m.def("convert_arrays", &convert_arrays, nb::arg("catalog"), nb::arg("arrays"), nb::arg("dst"),
        nb::arg("progress").none(), nb::arg("options"),
        nb::sig("def convert_arrays(catalog: Catalog, arrays: list[int], dst: bytes, progress: typing.Any, **options: "
                "typing.Any) -> dict[str, typing.Any]"));
}

}  // namespace loadstone::python
