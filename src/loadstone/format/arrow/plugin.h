#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loadstone/io/byte_source.h"

namespace loadstone {

/// What crosses the border to the plugin `libloadstone_arrow.so`, the only code that includes or links Arrow. Both
/// sides are built together; `kArrowPluginAbi` is raised when anything here changes.
inline constexpr int kArrowPluginAbi = 2;

/// One column (a leaf of the schema) as a Parquet footer says it.
struct ParquetColumn {
  std::string name;                     ///< dotted path
  int leaf = -1;                        ///< number of the leaf column
  std::string dtype;                    ///< of the elements; of the ticks for times; "" when `refusal` says why not
  std::vector<std::int64_t> row_shape;  ///< {} for flat columns, (k) or (k, m) for lists of equal length
  std::string refusal;                  ///< why no array can be made of it, or ""
  std::string time;  ///< "timestamp[us]" …: to be loaded as ticks only when a dtype is named; or ""
};

/// The bytes of one column in one row group.
struct ParquetChunk {
  std::int64_t offset_bytes = 0;
  std::int64_t stored_bytes = 0;
};

struct ParquetFooter {
  std::vector<ParquetColumn> columns;
  std::vector<std::int64_t> row_bounds{0};        ///< of the row groups, in rows of the file
  std::vector<std::vector<ParquetChunk>> chunks;  ///< [row group][leaf]
};

/// One stored piece to decode: row group `row_group`, the leaves in order, side by side as columns of `out`.
struct ParquetRequest {
  std::string path;
  FileStamp stamp;
  std::int64_t offset_bytes = 0;  ///< of `stored` in the file; it names the row group
  std::int64_t rows = 0;
  std::vector<int> leaves;
  std::vector<std::string> names;       ///< of the leaves, for messages
  std::vector<std::int64_t> row_shape;  ///< elements of one leaf in one row, as ParquetColumn::row_shape
  std::string dtype;
  std::span<const std::byte> stored;
  std::span<std::byte> out;
  std::span<const std::byte> fill;  ///< one element for nulls; empty: a null is an error
  /// Opens the file again when the plugin no longer holds its footer.
  std::function<std::unique_ptr<ByteSource>()> reopen;
};

/// A Parquet or Arrow IPC file to write. The callbacks return false to stop it.
struct TableToWrite {
  struct Column {
    std::string name, dtype;
    std::vector<std::int64_t> row_shape;  ///< {} for a flat column
  };
  bool parquet = false;
  std::vector<Column> columns;
  std::int64_t rows = 0, group_rows = 1;  ///< rows of a row group or record batch
  std::string codec;                      ///< "", none, snappy, gzip, zstd, lz4, brotli
  int level = -1;
  /// Fills `bytes` with the elements of rows [first, first + rows) of a column.
  std::function<bool(std::size_t column, std::int64_t first, std::int64_t rows, std::span<std::byte> bytes)> pull;
  std::function<bool(const void* data, std::size_t bytes)> write;
};

/// How a call ended. No exception crosses the border.
struct PluginStatus {
  enum class Kind : std::uint8_t { good, data, system } kind = Kind::good;
  std::string message;
};

struct ArrowPlugin {
  int abi = kArrowPluginAbi;
  std::string (*version)() = nullptr;  ///< of the Arrow library that is loaded
  /// Reads the footer through `source` and keeps it for decode. Safe from any thread.
  PluginStatus (*parquet_footer)(ByteSource& source, ParquetFooter& out) = nullptr;
  /// Decodes one piece. Safe from any thread.
  PluginStatus (*parquet_decode)(const ParquetRequest& request) = nullptr;
  /// Writes a file front to back. Safe from any thread.
  PluginStatus (*table_write)(const TableToWrite& table) = nullptr;
};

/// The symbol that the plugin exports.
using ArrowPluginEntry = const ArrowPlugin* (*)();
inline constexpr const char* kArrowPluginEntry = "loadstone_arrow_plugin";

/// The plugin, opened on first use. Error{system} saying what is missing and how to get it.
const ArrowPlugin& arrow_plugin();

/// For `doctor`: "Arrow 26.0.1" or why Parquet cannot be read here; `found` says which. Never throws.
std::string arrow_plugin_report(bool& found);

}  // namespace loadstone
