#pragma once

#include <cstddef>
#include <cstdint>

#include "loadstone/format/arrow/plugin.h"

namespace parquet {
class ColumnChunkMetaData;
class ColumnReader;
class FileMetaData;
}  // namespace parquet

namespace loadstone {

/// Columns, row groups and chunks of a footer. Error{data} for what contradicts itself or the
/// file's size: chunks that leave the file or overlap, value counts that are not the row group's rows (loading Q6).
ParquetFooter footer_of(const parquet::FileMetaData& metadata, std::int64_t file_bytes);

/// Where the pages of a chunk lie, its dictionary included.
ParquetChunk chunk_of(const parquet::ColumnChunkMetaData& chunk);

/// Decodes one column of one row group into column `column` of request.out. Error{data} naming
/// nulls, ragged lists and missing values.
void read_column(parquet::ColumnReader& reader, const ParquetRequest& request, std::size_t column);

}  // namespace loadstone
