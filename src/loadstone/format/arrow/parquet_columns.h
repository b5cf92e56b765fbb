#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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

/// Decodes columns of one row group, side by side, into request.out: one reader for each of request.leaves. Error{data}
/// naming nulls, ragged lists and missing values.
void read_columns(const std::vector<std::shared_ptr<parquet::ColumnReader>>& readers, const ParquetRequest& request);

}  // namespace loadstone
