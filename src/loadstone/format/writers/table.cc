// Arrow IPC files (Feather V2) and Parquet, written by Arrow in its plugin.

#include <algorithm>
#include <exception>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/arrow/plugin.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

namespace {

constexpr std::int64_t kGroupBytes = 32 << 20;  // of all columns

std::string refusal(const NewArray& array) {
  static constexpr DType kTypes[] = {dtypes::kBool,   dtypes::kInt8,    dtypes::kInt16,   dtypes::kInt32,
                                     dtypes::kInt64,  dtypes::kUInt8,   dtypes::kUInt16,  dtypes::kUInt32,
                                     dtypes::kUInt64, dtypes::kFloat16, dtypes::kFloat32, dtypes::kFloat64};
  if (std::find(std::begin(kTypes), std::end(kTypes), array.dtype) == std::end(kTypes)) {
    return "Arrow has no such number";
  }
  if (array.shape.empty()) return "a 0-d array has no rows";
  if (printable(array.name) != array.name) return "its name is no plain text";
  for (int d = 1; d < array.shape.size(); ++d) {
    if (array.shape[d] == 0 || array.shape[d] > INT32_MAX) return "its rows are lists of no or too many elements";
  }
  return "";
}

std::int64_t row_bytes(const NewFile& file) {
  std::int64_t sum = 0;
  for (const NewArray& array : file.arrays) {
    std::int64_t bytes = array.dtype.itemsize();
    for (int d = 1; d < array.shape.size(); ++d) bytes *= array.shape[d];
    sum += bytes;
  }
  return sum;
}

std::int64_t group_rows(const NewFile& file) {
  if (!file.storage.chunks.empty()) return file.storage.chunks[0];
  return std::max<std::int64_t>(1, kGroupBytes / std::max<std::int64_t>(1, row_bytes(file)));
}

/// The columns of a group, a copy while it is encoded, and what is encoded.
std::int64_t memory(const NewFile& file) {
  const std::int64_t rows = file.arrays.empty() ? 0 : std::min(group_rows(file), file.arrays[0].shape[0]);
  return 3 * rows * row_bytes(file);
}

void write_table(const NewFile& file, FileWriter& out, bool parquet) {
  const ArrowPlugin& plugin = arrow_plugin();
  std::exception_ptr raised;  // of our side, while the plugin's is on the stack
  const auto guarded = [&](const auto& work) {
    try {
      work();
      return true;
    } catch (...) {
      raised = std::current_exception();
      return false;
    }
  };
  TableToWrite table;
  table.parquet = parquet;
  table.rows = file.arrays[0].shape[0];
  table.group_rows = group_rows(file);
  table.codec = file.storage.compress;
  table.level = file.storage.level;
  for (const NewArray& array : file.arrays) {
    table.columns.push_back({array.name, to_string(array.dtype), {array.shape.begin() + 1, array.shape.end()}});
  }
  table.pull = [&](std::size_t column, std::int64_t first, std::int64_t rows, std::span<std::byte> bytes) {
    Box box = Box::whole(file.arrays[column].shape);
    box.begin[0] = first;
    box.end[0] = first + rows;
    return guarded([&] { file.source(column, box, bytes); });
  };
  table.write = [&](const void* data, std::size_t bytes) { return guarded([&] { out.write(data, bytes); }); };
  const PluginStatus status = plugin.table_write(table);
  if (raised) std::rethrow_exception(raised);
  if (status.kind != PluginStatus::Kind::good) {
    throw Error(ErrorKind::system, cat("'", printable(out.path()), "': cannot be written: ", status.message));
  }
}

void write_arrow(const NewFile& file, FileWriter& out) {
  write_table(file, out, false);
}

void write_parquet(const NewFile& file, FileWriter& out) {
  write_table(file, out, true);
}

}  // namespace

extern const Writer arrow_writer, parquet_writer;
const Writer arrow_writer{.name = "arrow",
                          .extension = ".arrow",
                          .several = true,
                          .table = true,
                          .chunked = true,
                          .codecs = {"lz4", "zstd"},
                          .refusal = refusal,
                          .memory = memory,
                          .write = write_arrow};
const Writer parquet_writer{.name = "parquet",
                            .extension = ".parquet",
                            .several = true,
                            .table = true,
                            .chunked = true,
                            .codecs = {"snappy", "gzip", "zstd", "lz4", "brotli"},
                            .refusal = refusal,
                            .memory = memory,
                            .write = write_parquet};

}  // namespace loadstone
