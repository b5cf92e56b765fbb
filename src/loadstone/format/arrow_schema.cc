#include "loadstone/format/arrow_schema.h"

#include <string_view>
#include <utility>

#include "loadstone/base/cat.h"

namespace loadstone {

namespace {

// Schema.fbs, union Type. Source: Apache Arrow, format/Schema.fbs, metadata version V5.
enum ArrowType : std::uint8_t {
  kNone,
  kNull,
  kInt,
  kFloatingPoint,
  kBinary,
  kUtf8,
  kBool,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,
  kInterval,
  kList,
  kStruct,
  kUnion,
  kFixedSizeBinary,
  kFixedSizeList,
  kMap,
  kDuration,
  kLargeBinary,
  kLargeUtf8,
  kLargeList,
  kRunEndEncoded,
  kBinaryView,
  kUtf8View,
  kListView,
  kLargeListView
};

constexpr std::string_view kNames[] = {"none",
                                       "null",
                                       "integer",
                                       "float",
                                       "binary",
                                       "string",
                                       "bool",
                                       "decimal",
                                       "date",
                                       "time",
                                       "timestamp",
                                       "interval",
                                       "list",
                                       "struct",
                                       "union",
                                       "fixed-size binary",
                                       "fixed-size list",
                                       "map",
                                       "duration",
                                       "large binary",
                                       "large string",
                                       "large list",
                                       "run-end encoded",
                                       "binary view",
                                       "string view",
                                       "list view",
                                       "large list view"};

struct Walk {
  std::size_t left;  // fields that may still be visited: children may point at one table again and again

  void visit(const FlatTable& field, ArrowField& out, int depth, bool is_value) {
    if (left-- == 0 || depth > 32) throw data_error("the Arrow schema nests without end");
    const auto type = field.scalar<std::uint8_t>(2, kNone);
    const FlatTable detail = field.table(3).value_or(field);
    const bool has_detail = field.table(3).has_value();
    const FlatTable::Vector children = field.vector(5, 4);
    ++out.nodes;
    if (!is_value && out.refusal.empty()) out.refusal = "is nested";
    const auto number = [&](int slot, int fallback) {
      return has_detail ? detail.scalar<std::int32_t>(slot, fallback) : fallback;
    };
    const auto unit = [&](int slot, int fallback) {
      return has_detail ? detail.scalar<std::int16_t>(slot, static_cast<std::int16_t>(fallback)) : fallback;
    };
    if (field.table(4)) {
      out.buffers += 2;  // the indices
      refuse(out, "is dictionary-encoded");
      return;
    }
    bool inner_value = false;
    switch (type) {
      case kNull: refuse(out, "is of type null"); break;
      case kInt: {
        out.buffers += 2;
        const int bits = number(0, 0);
        const bool is_signed = has_detail && detail.scalar<std::uint8_t>(1, 0) != 0;
        if (bits != 8 && bits != 16 && bits != 32 && bits != 64) refuse(out, cat("holds integers of ", bits, " bits"));
        out.dtype = DType{static_cast<std::uint8_t>(is_signed ? 0 : 1), static_cast<std::uint8_t>(bits), 1};
        break;
      }
      case kFloatingPoint: {
        out.buffers += 2;
        const int precision = unit(0, 0);
        if (precision < 0 || precision > 2) refuse(out, cat("holds floats of unknown precision ", precision));
        out.dtype = DType{2, static_cast<std::uint8_t>(16 << (precision & 3)), 1};
        break;
      }
      case kBool:
        out.buffers += 2;
        out.dtype = dtypes::kBool;
        out.bits = true;
        break;
      case kDate: ticks(out, "date", unit(0, 1) == 0 ? 32 : 64); break;
      case kTime: ticks(out, "time", number(1, 32)); break;
      case kTimestamp: ticks(out, "timestamp", 64); break;
      case kDuration: ticks(out, "duration", 64); break;
      case kFixedSizeList:
        out.buffers += 1;
        out.list_sizes.push_back(number(0, 0));
        if (out.list_sizes.back() < 0) refuse(out, "has lists of a negative length");
        inner_value = true;
        break;
      case kList:
      case kLargeList:
        out.buffers += 2;
        if (!out.list_sizes.empty()) refuse(out, "holds lists of lists whose lengths the schema does not fix");
        out.list_sizes.push_back(-1);
        out.large_offsets = type == kLargeList;
        inner_value = true;
        break;
      case kBinary:
      case kUtf8:
      case kLargeBinary:
      case kLargeUtf8:
        out.buffers += 3;
        other(out, type);
        break;
      case kDecimal:
      case kInterval:
      case kFixedSizeBinary:
        out.buffers += 2;
        other(out, type);
        break;
      case kStruct:
        out.buffers += 1;
        other(out, type);
        break;
      case kMap:
        out.buffers += 2;
        other(out, type);
        break;
      case kRunEndEncoded: other(out, type); break;
      case kListView:
      case kLargeListView:
        out.buffers += 3;
        other(out, type);
        break;
      default:  // unions (their buffers depend on the version), views, and what is newer
        out.variadic = true;
        other(out, type);
    }
    if (inner_value && children.size != 1) throw data_error("an Arrow list has no single child");
    for (std::size_t i = 0; i < children.size; ++i) visit(field.element(children, i), out, depth + 1, inner_value);
  }

  static void refuse(ArrowField& out, std::string why) {
    if (out.refusal.empty()) out.refusal = std::move(why);
  }
  static void other(ArrowField& out, std::uint8_t type) {
    refuse(out, type < std::size(kNames) ? cat("is of type ", kNames[type], ": not elements of a fixed size")
                                         : cat("is of an unknown type (", static_cast<int>(type), ")"));
  }
  static void ticks(ArrowField& out, std::string_view what, int bits) {
    out.buffers += 2;
    out.time = what;
    if (bits != 32 && bits != 64) refuse(out, cat("holds ", what, " of ", bits, " bits"));
    out.dtype = bits == 32 ? dtypes::kInt32 : dtypes::kInt64;
  }
};

}  // namespace

std::vector<ArrowField> arrow_fields(const FlatTable& schema) {
  const FlatTable::Vector fields = schema.vector(1, 4);
  Walk walk{schema.buffer_bytes() / 8};
  std::vector<ArrowField> out;
  for (std::size_t i = 0; i < fields.size; ++i) {
    const FlatTable field = schema.element(fields, i);
    out.emplace_back();
    out.back().name = field.text(0);
    walk.visit(field, out.back(), 0, true);
  }
  return out;
}

}  // namespace loadstone
