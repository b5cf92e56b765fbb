// Tables written by Arrow: record batches over memory that is filled by the core.

#include "loadstone/format/arrow/table_writer.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone {

namespace {

class Output : public arrow::io::OutputStream {
 public:
  explicit Output(const TableToWrite& table) : table_(table) {}
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Write(const void* data, int64_t nbytes) override {
    if (!table_.write(data, static_cast<std::size_t>(nbytes))) return arrow::Status::IOError("stopped");
    position_ += nbytes;
    return arrow::Status::OK();
  }

 private:
  const TableToWrite& table_;
  int64_t position_ = 0;
  bool closed_ = false;
};

std::shared_ptr<arrow::DataType> number_type(const std::string& dtype) {
  const std::pair<const char*, std::shared_ptr<arrow::DataType>> types[] = {
      {"bool", arrow::boolean()},    {"int8", arrow::int8()},       {"int16", arrow::int16()},
      {"int32", arrow::int32()},     {"int64", arrow::int64()},     {"uint8", arrow::uint8()},
      {"uint16", arrow::uint16()},   {"uint32", arrow::uint32()},   {"uint64", arrow::uint64()},
      {"float16", arrow::float16()}, {"float32", arrow::float32()}, {"float64", arrow::float64()}};
  for (const auto& [name, type] : types) {
    if (dtype == name) return type;
  }
  throw internal_error(cat("a table column of ", dtype));
}

/// Lists of fixed lengths around numbers, without nulls.
std::shared_ptr<arrow::DataType> column_type(const TableToWrite::Column& column) {
  std::shared_ptr<arrow::DataType> type = number_type(column.dtype);
  for (auto extent = column.row_shape.rbegin(); extent != column.row_shape.rend(); ++extent) {
    type = arrow::fixed_size_list(arrow::field("item", type, false), static_cast<std::int32_t>(*extent));
  }
  return type;
}

std::int64_t elements_a_row(const TableToWrite::Column& column) {
  std::int64_t n = 1;
  for (const std::int64_t extent : column.row_shape) n *= extent;
  return n;
}

std::shared_ptr<arrow::Buffer> pull(const TableToWrite& table, std::size_t c, std::int64_t first, std::int64_t rows) {
  const TableToWrite::Column& column = table.columns[c];
  const auto type = number_type(column.dtype);
  const std::int64_t elements = rows * elements_a_row(column);
  const std::int64_t width = type->id() == arrow::Type::BOOL ? 1 : type->bit_width() / 8;
  PARQUET_ASSIGN_OR_THROW(std::shared_ptr<arrow::Buffer> bytes, arrow::AllocateBuffer(elements * width));
  const std::span<std::byte> out(reinterpret_cast<std::byte*>(bytes->mutable_data()),
                                 static_cast<std::size_t>(elements * width));
  if (!table.pull(c, first, rows, out)) throw internal_error("stopped");
  if (type->id() != arrow::Type::BOOL) return bytes;
  PARQUET_ASSIGN_OR_THROW(std::shared_ptr<arrow::Buffer> bits, arrow::AllocateBuffer((elements + 7) / 8));
  std::fill_n(bits->mutable_data(), bits->size(), std::uint8_t{0});
  for (std::int64_t i = 0; i < elements; ++i) {
    if (out[static_cast<std::size_t>(i)] != std::byte{0}) {
      bits->mutable_data()[i / 8] = static_cast<std::uint8_t>(bits->mutable_data()[i / 8] | (1U << (i % 8)));
    }
  }
  return bits;
}

std::shared_ptr<arrow::ArrayData> column_data(const TableToWrite& table, std::size_t c, std::int64_t first,
                                              std::int64_t rows) {
  const TableToWrite::Column& column = table.columns[c];
  auto data = arrow::ArrayData::Make(number_type(column.dtype), rows * elements_a_row(column),
                                     {nullptr, pull(table, c, first, rows)}, 0);
  std::int64_t length = data->length;
  std::shared_ptr<arrow::DataType> type = data->type;
  for (auto extent = column.row_shape.rbegin(); extent != column.row_shape.rend(); ++extent) {
    length /= *extent;
    type = arrow::fixed_size_list(arrow::field("item", type, false), static_cast<std::int32_t>(*extent));
    data = arrow::ArrayData::Make(type, length, {nullptr}, {data}, 0);
  }
  return data;
}

std::shared_ptr<arrow::RecordBatch> group(const TableToWrite& table, const std::shared_ptr<arrow::Schema>& schema,
                                          std::int64_t first) {
  const std::int64_t rows = std::min(table.group_rows, table.rows - first);
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (std::size_t c = 0; c < table.columns.size(); ++c) columns.push_back(column_data(table, c, first, rows));
  return arrow::RecordBatch::Make(schema, rows, std::move(columns));
}

arrow::Compression::type codec_of(const TableToWrite& table) {
  if (table.codec.empty() || table.codec == "none") return arrow::Compression::UNCOMPRESSED;
  // Parquet's LZ4_RAW has no frame around it, and is called LZ4 here.
  if (table.codec == "lz4") return table.parquet ? arrow::Compression::LZ4 : arrow::Compression::LZ4_FRAME;
  PARQUET_ASSIGN_OR_THROW(const auto codec, arrow::util::Codec::GetCompressionType(table.codec));
  return codec;
}

void write_ipc(const TableToWrite& table, const std::shared_ptr<arrow::Schema>& schema,
               const std::shared_ptr<Output>& out) {
  arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  if (codec_of(table) != arrow::Compression::UNCOMPRESSED) {
    const int level = table.level < 0 ? arrow::util::kUseDefaultCompressionLevel : table.level;
    PARQUET_ASSIGN_OR_THROW(options.codec, arrow::util::Codec::Create(codec_of(table), level));
  }
  PARQUET_ASSIGN_OR_THROW(const auto writer, arrow::ipc::MakeFileWriter(out, schema, options));
  for (std::int64_t first = 0; first < table.rows; first += table.group_rows) {
    PARQUET_THROW_NOT_OK(writer->WriteRecordBatch(*group(table, schema, first)));
  }
  PARQUET_THROW_NOT_OK(writer->Close());
}

void write_parquet(const TableToWrite& table, const std::shared_ptr<arrow::Schema>& schema,
                   const std::shared_ptr<Output>& out) {
  parquet::WriterProperties::Builder builder;
  // Numbers rarely repeat, and plain pages are decoded straight into place.
  builder.disable_dictionary()->compression(codec_of(table))->enable_page_checksum();
  builder.max_row_group_length(std::numeric_limits<std::int64_t>::max());
  if (table.level >= 0) builder.compression_level(table.level);
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  PARQUET_ASSIGN_OR_THROW(const auto writer, parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(),
                                                                              out, builder.build(), arrow_properties));
  for (std::int64_t first = 0; first < table.rows; first += table.group_rows) {
    PARQUET_ASSIGN_OR_THROW(const auto one, arrow::Table::FromRecordBatches(schema, {group(table, schema, first)}));
    PARQUET_THROW_NOT_OK(writer->WriteTable(*one, std::max<std::int64_t>(1, one->num_rows())));
  }
  PARQUET_THROW_NOT_OK(writer->Close());
}

}  // namespace

void write_table(const TableToWrite& table) {
  arrow::FieldVector fields;
  for (const TableToWrite::Column& column : table.columns) {
    fields.push_back(arrow::field(column.name, column_type(column), false));
  }
  const auto schema = arrow::schema(std::move(fields));
  const auto out = std::make_shared<Output>(table);
  if (table.parquet) {
    write_parquet(table, schema, out);
  } else {
    write_ipc(table, schema, out);
  }
}

}  // namespace loadstone
