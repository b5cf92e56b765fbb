// Columns of one row group, decoded into their places.

#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/arrow/parquet_columns.h"

namespace loadstone {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw data_error(what);
}

/// Checks the levels of a column while it is read: no nulls, every list of its length.
class Levels {
 public:
  Levels(const parquet::ColumnDescriptor& column, const ParquetRequest& request, const std::string& name)
      : name_(name),
        shape_(request.row_shape),
        full_(column.max_definition_level()),
        repeats_(column.max_repetition_level()),
        per_row_(std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>())),
        fill_(!request.fill.empty()) {}

  std::int64_t per_row() const { return per_row_; }

  /// The levels of the next `count` values.
  void check(const std::int16_t* definition, const std::int16_t* repetition, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t value = seen_ + i;
      if (repeats_ > 0) check_repetition(repetition[i], definition[i], value);
      if (full_ > 0 && definition[i] != full_ && !fill_) ++nulls_;
    }
    seen_ += count;
  }
  void finish(std::int64_t rows) const {
    if (nulls_ > 0)
      refuse(cat("column '", name_, "' holds ", nulls_, " nulls in ", rows, " rows (--fill VALUE loads them)"));
    if (seen_ != rows * per_row_) {
      refuse(cat("column '", name_, "' holds ", seen_, " values: expected ", rows * per_row_, " in ", rows, " rows"));
    }
  }

 private:
  /// In lists of k of m elements, value v begins a row at v % (k·m) == 0, an inner list at v % m == 0.
  void check_repetition(std::int16_t repetition, std::int16_t definition, std::int64_t value) const {
    std::int16_t expected = 0;
    if (per_row_ > 0) {
      std::int64_t block = per_row_;
      while (expected < repeats_ && value % block != 0) {
        block /= std::max<std::int64_t>(1, shape_[static_cast<std::size_t>(expected)]);
        ++expected;
      }
    }
    if (repetition == expected) return;
    const std::int64_t row = per_row_ > 0 ? value / per_row_ : value;
    if (definition < full_)
      refuse(cat("column '", name_, "' holds a null or an empty list near row ", row, " of the row group"));
    refuse(cat("column '", name_, "' holds lists of unequal lengths: expected ", per_row_,
               " elements in every row, not so at row ", repetition == 0 ? row : std::max<std::int64_t>(row - 1, 0),
               " of the row group"));
  }

  std::string name_;
  std::vector<std::int64_t> shape_;
  std::int16_t full_, repeats_;
  std::int64_t per_row_, seen_ = 0, nulls_ = 0;
  bool fill_;
};

/// Puts one decoded value where it belongs; narrow integers must be in their type's range.
template <typename Out, typename In>
void put(const In& value, std::byte* to) {
  Out out;
  if constexpr (std::is_same_v<In, parquet::FixedLenByteArray>) {
    std::memcpy(&out, value.ptr, sizeof(Out));
  } else if constexpr (sizeof(Out) == sizeof(In)) {
    std::memcpy(&out, &value, sizeof(Out));
  } else {
    out = static_cast<Out>(value);
    if (static_cast<In>(out) != value) refuse(cat("a value of ", value, " does not fit the column's type"));
  }
  std::memcpy(to, &out, sizeof(Out));
}

/// One column that is being read, some rows at a time.
class Column {
 public:
  virtual ~Column() = default;
  Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  /// Decodes the values of the next rows; at the end of the column fewer may come.
  virtual void next(std::int64_t rows) = 0;
  /// All must have come, and nothing else.
  virtual void finish() = 0;
};

constexpr std::int64_t kBatch = 32768;  // values

template <typename Physical, typename Out>
class ColumnOf : public Column {
 public:
  ColumnOf(std::shared_ptr<parquet::ColumnReader> base, const ParquetRequest& request, std::size_t column)
      : base_(std::move(base)),
        request_(request),
        column_(column),
        columns_(request.leaves.size()),
        levels_(*base_->descr(), request, request.names[column]),
        per_row_(levels_.per_row()),
        full_(base_->descr()->max_definition_level()),
        has_levels_(base_->descr()->max_definition_level() > 0 || base_->descr()->max_repetition_level() > 0),
        direct_(sizeof(Out) == sizeof(In) && !std::is_same_v<In, parquet::FixedLenByteArray> && columns_ == 1) {
    const std::int64_t total = request.rows * per_row_;
    if (request.out.size() != static_cast<std::size_t>(total) * columns_ * sizeof(Out))
      refuse("the piece has another size");
    if (has_levels_) {
      definition_.resize(kBatch);
      repetition_.resize(kBatch);
    }
    if (!direct_) buffer_ = std::make_unique<In[]>(kBatch);
  }

  void next(std::int64_t rows) override {
    const std::int64_t end = std::min(done_ + rows * per_row_, request_.rows * per_row_);
    while (done_ < end && base_->HasNext()) {
      const std::int64_t taken = batch(end - done_);
      if (taken <= 0) break;
      done_ += taken;
    }
  }

  void finish() override {
    const std::int64_t total = request_.rows * per_row_;
    if (done_ == total && total > 0 && base_->HasNext())
      refuse(cat("column '", request_.names[column_], "' holds more values than ", total));
    levels_.finish(request_.rows);
  }

 private:
  using In = typename Physical::c_type;

  /// Decodes up to `wanted` values into `out` itself, or through the buffer.
  std::int64_t batch(std::int64_t wanted) {
    auto& reader = static_cast<parquet::TypedColumnReader<Physical>&>(*base_);
    if (!direct_ || has_levels_) wanted = std::min(kBatch, wanted);
    In* const to = direct_ ? reinterpret_cast<In*>(request_.out.data()) + done_ : buffer_.get();
    std::int64_t values = 0;
    const std::int64_t got = reader.ReadBatch(wanted, has_levels_ ? definition_.data() : nullptr,
                                              has_levels_ ? repetition_.data() : nullptr, to, &values);
    if (got <= 0 && values <= 0) return 0;
    const std::int64_t taken = has_levels_ ? got : values;
    levels_.check(definition_.data(), repetition_.data(), taken);
    if (values != taken) {
      if (!request_.fill.empty()) place_with_gaps(to, taken, values);
      // Without a value for nulls they are counted by the levels; it goes on only to name them all.
    } else if (!direct_) {
      place(to, taken);
    }
    return taken;
  }

  std::byte* address(std::int64_t element) const {
    return request_.out.data() +
           (static_cast<std::size_t>(element / per_row_) * columns_ + column_) * static_cast<std::size_t>(per_row_) *
               sizeof(Out) +
           static_cast<std::size_t>(element % per_row_) * sizeof(Out);
  }

  void place(const In* from, std::int64_t count) {
    std::byte* to = address(done_);
    std::int64_t left = per_row_ - done_ % per_row_;  // elements to the end of the row
    const std::size_t others = (columns_ - 1) * static_cast<std::size_t>(per_row_) * sizeof(Out);
    for (std::int64_t i = 0; i < count; ++i) {
      put<Out>(from[i], to);
      to += sizeof(Out);
      if (--left == 0) {
        left = per_row_;
        to += others;
      }
    }
  }

  void place_with_gaps(const In* from, std::int64_t count, std::int64_t values) {
    // Backwards: a gap moves values to the right inside `out` when they were decoded there.
    for (std::int64_t i = count; i-- > 0;) {
      std::byte* const to = address(done_ + i);
      if (definition_[static_cast<std::size_t>(i)] != full_) {
        std::memcpy(to, request_.fill.data(), sizeof(Out));
      } else {
        put<Out>(from[--values], to);
      }
    }
  }

  std::shared_ptr<parquet::ColumnReader> base_;
  const ParquetRequest& request_;
  std::size_t column_, columns_;
  Levels levels_;
  std::int64_t per_row_, done_ = 0;
  std::int16_t full_;
  bool has_levels_;
  bool direct_;  ///< decoded where it belongs
  std::vector<std::int16_t> definition_, repetition_;
  std::unique_ptr<In[]> buffer_;
};

using Reader = std::shared_ptr<parquet::ColumnReader>;

template <typename Physical>
std::unique_ptr<Column> integers(Reader reader, const ParquetRequest& request, std::size_t column) {
  const std::string& dtype = request.dtype;
  const auto as = [&](auto zero) -> std::unique_ptr<Column> {
    return std::make_unique<ColumnOf<Physical, decltype(zero)>>(std::move(reader), request, column);
  };
  if (dtype == "int8") return as(std::int8_t{});
  if (dtype == "int16") return as(std::int16_t{});
  if (dtype == "int32") return as(std::int32_t{});
  if (dtype == "int64") return as(std::int64_t{});
  if (dtype == "uint8") return as(std::uint8_t{});
  if (dtype == "uint16") return as(std::uint16_t{});
  if (dtype == "uint32") return as(std::uint32_t{});
  if (dtype == "uint64") return as(std::uint64_t{});
  refuse(cat("integers cannot be loaded as ", dtype));
}

template <typename Physical, typename Out>
std::unique_ptr<Column> numbers(Reader reader, const ParquetRequest& request, std::size_t column) {
  return std::make_unique<ColumnOf<Physical, Out>>(std::move(reader), request, column);
}

std::unique_ptr<Column> make_column(Reader reader, const ParquetRequest& request, std::size_t column) {
  switch (reader->type()) {
    case parquet::Type::BOOLEAN: return numbers<parquet::BooleanType, bool>(std::move(reader), request, column);
    case parquet::Type::INT32: return integers<parquet::Int32Type>(std::move(reader), request, column);
    case parquet::Type::INT64: return integers<parquet::Int64Type>(std::move(reader), request, column);
    case parquet::Type::FLOAT: return numbers<parquet::FloatType, float>(std::move(reader), request, column);
    case parquet::Type::DOUBLE: return numbers<parquet::DoubleType, double>(std::move(reader), request, column);
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      if (reader->descr()->type_length() == 2) {
        return numbers<parquet::FLBAType, std::uint16_t>(std::move(reader), request, column);
      }
      [[fallthrough]];
    default: refuse("a column of this type cannot be loaded");
  }
}

}  // namespace

void read_columns(const std::vector<std::shared_ptr<parquet::ColumnReader>>& readers, const ParquetRequest& request) {
  std::vector<std::unique_ptr<Column>> columns;
  for (std::size_t c = 0; c < readers.size(); ++c) columns.push_back(make_column(readers[c], request, c));
  // Several columns side by side: some rows of each in turn, so that a line of `out` is in cache until it is full.
  constexpr std::int64_t kRows = 2048;
  const std::int64_t step = columns.size() == 1 ? std::max<std::int64_t>(1, request.rows) : kRows;
  for (std::int64_t row = 0; row < request.rows; row += step) {
    for (const auto& column : columns) column->next(std::min(step, request.rows - row));
  }
  for (const auto& column : columns) column->finish();
}

}  // namespace loadstone
