// One column of one row group, decoded into its place.

#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

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

/// Reads the whole column in batches. `direct` columns are decoded into `out` itself.
template <typename Physical, typename Out>
void read_values(parquet::ColumnReader& base, const ParquetRequest& request, std::size_t column) {
  using In = typename Physical::c_type;
  auto& reader = static_cast<parquet::TypedColumnReader<Physical>&>(base);
  const std::string& name = request.names[column];
  Levels levels(*base.descr(), request, name);
  const std::int64_t per_row = levels.per_row();
  const std::int64_t total = request.rows * per_row;
  const std::size_t columns = request.leaves.size();
  if (request.out.size() != static_cast<std::size_t>(total) * columns * sizeof(Out))
    refuse("the piece has another size");
  constexpr bool kSameBytes = sizeof(Out) == sizeof(In) && !std::is_same_v<In, parquet::FixedLenByteArray>;
  const bool direct = kSameBytes && columns == 1;
  const bool has_levels = base.descr()->max_definition_level() > 0 || base.descr()->max_repetition_level() > 0;
  constexpr std::int64_t kBatch = 32768;
  std::vector<std::int16_t> definition(has_levels ? kBatch : 0), repetition(has_levels ? kBatch : 0);
  const auto buffer = direct ? nullptr : std::make_unique<In[]>(kBatch);
  std::byte* const out = request.out.data();
  const std::int16_t full = base.descr()->max_definition_level();
  std::int64_t done = 0;
  while (done < total && base.HasNext()) {
    const std::int64_t batch = std::min(direct && !has_levels ? total : kBatch, total - done);
    In* const to = direct ? reinterpret_cast<In*>(out) + done : buffer.get();
    std::int64_t values = 0;
    const std::int64_t got = reader.ReadBatch(batch, has_levels ? definition.data() : nullptr,
                                              has_levels ? repetition.data() : nullptr, to, &values);
    if (got <= 0 && values <= 0) break;
    const std::int64_t taken = has_levels ? got : values;
    if (has_levels)
      levels.check(definition.data(), repetition.data(), taken);
    else
      levels.check(nullptr, nullptr, taken);
    const bool gaps = values != taken;
    if (gaps && request.fill.empty()) {  // counted by levels; go on only to name them all
      done += taken;
      continue;
    }
    if (!direct || gaps) {
      // Backwards: a gap moves values to the right inside `out` when they were decoded there.
      std::int64_t from = values;
      for (std::int64_t i = taken; i-- > 0;) {
        const std::int64_t element = done + i;
        std::byte* const place = out +
                                 (static_cast<std::size_t>(element / per_row) * columns + column) *
                                     static_cast<std::size_t>(per_row) * sizeof(Out) +
                                 static_cast<std::size_t>(element % per_row) * sizeof(Out);
        if (gaps && definition[static_cast<std::size_t>(i)] != full) {
          std::memcpy(place, request.fill.data(), sizeof(Out));
        } else {
          put<Out>(to[--from], place);
        }
      }
    }
    done += taken;
  }
  if (done == total && total > 0 && base.HasNext()) refuse(cat("column '", name, "' holds more values than ", total));
  levels.finish(request.rows);
}

template <typename Physical>
void read_integers(parquet::ColumnReader& reader, const ParquetRequest& request, std::size_t column) {
  const std::string& dtype = request.dtype;
  if (dtype == "int8") return read_values<Physical, std::int8_t>(reader, request, column);
  if (dtype == "int16") return read_values<Physical, std::int16_t>(reader, request, column);
  if (dtype == "int32") return read_values<Physical, std::int32_t>(reader, request, column);
  if (dtype == "int64") return read_values<Physical, std::int64_t>(reader, request, column);
  if (dtype == "uint8") return read_values<Physical, std::uint8_t>(reader, request, column);
  if (dtype == "uint16") return read_values<Physical, std::uint16_t>(reader, request, column);
  if (dtype == "uint32") return read_values<Physical, std::uint32_t>(reader, request, column);
  if (dtype == "uint64") return read_values<Physical, std::uint64_t>(reader, request, column);
  refuse(cat("integers cannot be loaded as ", dtype));
}

}  // namespace

void read_column(parquet::ColumnReader& reader, const ParquetRequest& request, std::size_t column) {
  switch (reader.type()) {
    case parquet::Type::BOOLEAN: return read_values<parquet::BooleanType, bool>(reader, request, column);
    case parquet::Type::INT32: return read_integers<parquet::Int32Type>(reader, request, column);
    case parquet::Type::INT64: return read_integers<parquet::Int64Type>(reader, request, column);
    case parquet::Type::FLOAT: return read_values<parquet::FloatType, float>(reader, request, column);
    case parquet::Type::DOUBLE: return read_values<parquet::DoubleType, double>(reader, request, column);
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      if (reader.descr()->type_length() == 2) {
        return read_values<parquet::FLBAType, std::uint16_t>(reader, request, column);
      }
      [[fallthrough]];
    default: refuse("a column of this type cannot be loaded");
  }
}

}  // namespace loadstone
