// Which columns of a Parquet file are arrays, and where their bytes are.

#include <arrow/type.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <set>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/format/arrow/parquet_columns.h"

namespace loadstone {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw data_error(what);
}

/// dtype, refusal and time of a column whose elements have this type.
void classify(const arrow::DataType& type, const parquet::ColumnDescriptor& leaf, ParquetColumn& out) {
  if (leaf.physical_type() == parquet::Type::INT96) {
    out.refusal = "holds INT96 times, a deprecated type: write it as a timestamp";
    return;
  }
  const auto& logical = leaf.logical_type();
  if (logical != nullptr && logical->type() == parquet::LogicalType::Type::UNDEFINED) {
    out.refusal =
        cat("has a logical type that Arrow does not know, over ", parquet::TypeToString(leaf.physical_type()));
    return;
  }
  switch (type.id()) {
    case arrow::Type::BOOL: out.dtype = "bool"; return;
    case arrow::Type::INT8: out.dtype = "int8"; return;
    case arrow::Type::INT16: out.dtype = "int16"; return;
    case arrow::Type::INT32: out.dtype = "int32"; return;
    case arrow::Type::INT64: out.dtype = "int64"; return;
    case arrow::Type::UINT8: out.dtype = "uint8"; return;
    case arrow::Type::UINT16: out.dtype = "uint16"; return;
    case arrow::Type::UINT32: out.dtype = "uint32"; return;
    case arrow::Type::UINT64: out.dtype = "uint64"; return;
    case arrow::Type::HALF_FLOAT: out.dtype = "float16"; return;
    case arrow::Type::FLOAT: out.dtype = "float32"; return;
    case arrow::Type::DOUBLE: out.dtype = "float64"; return;
    case arrow::Type::TIMESTAMP:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::DURATION:
      out.dtype = leaf.physical_type() == parquet::Type::INT32 ? "int32" : "int64";
      out.time = type.ToString();
      return;
    case arrow::Type::DECIMAL32:
    case arrow::Type::DECIMAL64:
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      out.refusal = cat("holds decimals (", type.ToString(), "): scaled integers, which no array type expresses");
      return;
    default:
      out.refusal = cat("is of type ", type.ToString(), " (", parquet::TypeToString(leaf.physical_type()),
                        "): not elements of a fixed size");
  }
}

struct Walk {
  const parquet::SchemaDescriptor& schema;
  std::vector<ParquetColumn>& columns;
  std::vector<std::vector<std::int64_t>>& list_sizes;  // of each leaf: fixed sizes, -1 = from the counts

  void field(const parquet::arrow::SchemaField& field, std::string name, std::vector<std::int64_t> sizes,
             const std::string& refusal) {
    const arrow::DataType& type = *field.field->type();
    if (field.is_leaf()) {
      ParquetColumn& out = columns[static_cast<std::size_t>(field.column_index)];
      out.name = std::move(name);
      out.leaf = field.column_index;
      out.refusal = refusal;
      const parquet::ColumnDescriptor& leaf = *schema.Column(field.column_index);
      if (out.refusal.empty()) classify(type, leaf, out);
      if (out.refusal.empty() && std::count(sizes.begin(), sizes.end(), -1) > 1) {
        out.refusal = cat("holds lists of lists whose lengths the schema does not fix");
      }
      if (out.refusal.empty() && static_cast<int>(sizes.size()) != leaf.max_repetition_level()) {
        out.refusal = "repeats in a way that the schema does not explain";
      }
      list_sizes[static_cast<std::size_t>(field.column_index)] = std::move(sizes);
      return;
    }
    switch (type.id()) {
      case arrow::Type::LIST:
      case arrow::Type::LARGE_LIST: sizes.push_back(-1); break;
      case arrow::Type::FIXED_SIZE_LIST:
        sizes.push_back(static_cast<const arrow::FixedSizeListType&>(type).list_size());
        break;
      case arrow::Type::STRUCT:
        for (const auto& child : field.children) {
          this->field(child, cat(name, ".", child.field->name()), sizes, refusal);
        }
        return;
      default:
        for (const auto& child : field.children) {
          this->field(child, cat(name, ".", child.field->name()), sizes,
                      cat("is part of a ", type.name(), ", which no array expresses"));
        }
        return;
    }
    for (const auto& child : field.children) this->field(child, name, sizes, refusal);
  }
};

/// Row counts, extents and value counts of all chunks; refuses what does not agree (loading Q6).
void read_chunks(const parquet::FileMetaData& metadata, std::int64_t file_bytes, ParquetFooter& out) {
  std::int64_t rows = 0;
  std::set<std::int64_t> begins;
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    const auto row_group = metadata.RowGroup(group);
    const auto sum = checked_add(rows, row_group->num_rows());
    if (row_group->num_rows() < 0 || !sum) refuse(cat("row group ", group, " claims ", row_group->num_rows(), " rows"));
    rows = *sum;
    out.row_bounds.push_back(rows);
    std::vector<ParquetChunk> chunks;
    for (int leaf = 0; leaf < row_group->num_columns(); ++leaf) {
      const auto column = row_group->ColumnChunk(leaf);
      const std::string name = metadata.schema()->Column(leaf)->path()->ToDotString();
      if (!column->file_path().empty()) {
        refuse(cat("column '", name, "' lies in another file, '", column->file_path(), "'"));
      }
      if (column->crypto_metadata() != nullptr) refuse(cat("column '", name, "' is encrypted"));
      ParquetChunk chunk = chunk_of(*column);
      // A row group without rows may lie nowhere.
      const std::int64_t end = checked_add(chunk.offset_bytes, chunk.stored_bytes).value_or(-1);
      if (row_group->num_rows() > 0 &&
          (chunk.offset_bytes < 4 || chunk.stored_bytes < 0 || end < 0 || end > file_bytes)) {
        refuse(cat("column '", name, "' of row group ", group, " claims bytes ", chunk.offset_bytes, " to ", end,
                   " of a file of ", file_bytes));
      }
      // Files of parquet-mr before 1.2.9 understate their chunks; Arrow reads up to 100 bytes more of them.
      if (row_group->num_rows() > 0 &&
          metadata.writer_version().VersionLt(parquet::ApplicationVersion::PARQUET_816_FIXED_VERSION())) {
        chunk.stored_bytes += std::min<std::int64_t>(100, file_bytes - end);
      }
      if (row_group->num_rows() > 0 && !begins.insert(chunk.offset_bytes).second) {
        refuse(cat("column '", name, "' of row group ", group, " begins where another does, at byte ",
                   chunk.offset_bytes));
      }
      if (metadata.schema()->Column(leaf)->max_repetition_level() == 0 &&
          column->num_values() != row_group->num_rows()) {
        refuse(cat("column '", name, "' of row group ", group, " holds ", column->num_values(),
                   " values: expected as many as the row group has rows, ", row_group->num_rows()));
      }
      chunks.push_back(chunk);
    }
    out.chunks.push_back(std::move(chunks));
  }
  if (rows != metadata.num_rows()) {
    refuse(cat("the row groups hold ", rows, " rows: expected ", metadata.num_rows(), ", as the footer says"));
  }
}

/// The one list length that the schema leaves open, from the counts: values ÷ rows must be the same everywhere.
void find_row_shape(const parquet::FileMetaData& metadata, std::vector<std::int64_t> sizes, ParquetColumn& column) {
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end()) {
    std::int64_t known = 1;
    for (const std::int64_t size : sizes) known *= size == -1 ? 1 : std::max<std::int64_t>(size, 1);
    std::int64_t length = -1;
    for (int group = 0; group < metadata.num_row_groups(); ++group) {
      const std::int64_t rows = metadata.RowGroup(group)->num_rows();
      const std::int64_t values = metadata.RowGroup(group)->ColumnChunk(column.leaf)->num_values();
      if (rows == 0) continue;
      if (values % (rows * known) != 0 || (length != -1 && values / rows / known != length)) {
        column.refusal =
            cat("holds lists of unequal lengths, or nulls: ", values, " values in the ", rows, " rows of row group ",
                group, length == -1 ? std::string{} : cat(", ", length * known, " a row before"));
        return;
      }
      length = values / rows / known;
    }
    *open = std::max<std::int64_t>(length, 0);
  }
  column.row_shape = std::move(sizes);
}

}  // namespace

ParquetChunk chunk_of(const parquet::ColumnChunkMetaData& chunk) {
  std::int64_t begin = chunk.data_page_offset();
  if (chunk.has_dictionary_page() && chunk.dictionary_page_offset() > 0) {
    begin = std::min(begin, chunk.dictionary_page_offset());
  }
  return {begin, chunk.total_compressed_size()};
}

ParquetFooter footer_of(const parquet::FileMetaData& metadata, std::int64_t file_bytes) {
  ParquetFooter out;
  out.columns.resize(static_cast<std::size_t>(metadata.num_columns()));
  std::vector<std::vector<std::int64_t>> list_sizes(out.columns.size());
  parquet::arrow::SchemaManifest manifest;
  PARQUET_THROW_NOT_OK(parquet::arrow::SchemaManifest::Make(metadata.schema(), metadata.key_value_metadata(),
                                                            parquet::ArrowReaderProperties(), &manifest));
  Walk walk{*metadata.schema(), out.columns, list_sizes};
  for (const auto& field : manifest.schema_fields) walk.field(field, field.field->name(), {}, {});
  read_chunks(metadata, file_bytes, out);
  for (ParquetColumn& column : out.columns) {
    if (column.leaf >= 0 && column.refusal.empty()) {
      find_row_shape(metadata, std::move(list_sizes[static_cast<std::size_t>(column.leaf)]), column);
    }
  }
  return out;
}

}  // namespace loadstone
