#include "loadstone/plan/coalesce.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "loadstone/base/error.h"
#include "loadstone/plan/plan_fixtures.h"

namespace loadstone {
namespace {

using testing::exact_cost;
using testing::merging_cost;

Piece block(const Shape& shape, ElementOrder order = ElementOrder::c, std::int64_t offset = 0) {
  Piece piece;
  piece.box = Box::whole(shape);
  piece.stored_shape = shape;
  piece.order = order;
  piece.offset_bytes = offset;
  return piece;
}

struct Runs {
  std::int64_t offset, bytes;
  Dims counts, strides;
};

void check(const char* phrase, const Piece& piece, const Box& sub, DType dtype, const CostModel& cost,
           const Runs& expected) {
  SCOPED_TRACE(phrase);
  const ReadPattern found = read_pattern(piece, sub, dtype, cost);
  EXPECT_EQ(found.offset_bytes, expected.offset);
  EXPECT_EQ(found.run_bytes, expected.bytes);
  EXPECT_EQ(to_string(found.counts), to_string(expected.counts));
  EXPECT_EQ(to_string(found.strides_bytes), to_string(expected.strides));
  EXPECT_EQ(found.needed_bytes, dtype.nbytes(sub.num_elems()));
  EXPECT_EQ(found.over_reads, found.bytes_read() > found.needed_bytes);
}

constexpr DType kF4 = dtypes::kFloat32;

TEST(Coalesce, LaysOutExactRuns) {
  const CostModel exact = exact_cost();
  const auto f = ElementOrder::f;
  check("a whole array is one run", block({64, 128}), {{0, 0}, {64, 128}}, kF4, exact, {0, 32768, {}, {}});
  check("leading rows are one run", block({64, 128}), {{16, 0}, {32, 128}}, kF4, exact, {8192, 8192, {}, {}});
  check("part of one row is one run", block({64, 128}), {{3, 5}, {4, 9}}, kF4, exact, {1556, 16, {}, {}});
  check("columns are a run a row", block({64, 128}), {{0, 16}, {64, 32}}, kF4, exact, {64, 64, {64}, {512}});
  check("one column", block({4, 3}), {{0, 1}, {4, 2}}, kF4, exact, {4, 4, {4}, {12}});
  check("both dimensions cut", block({64, 128}), {{32, 96}, {64, 128}}, kF4, exact, {16768, 128, {32}, {512}});
  check("the middle of three", block({4, 6, 5}), {{0, 2, 0}, {4, 4, 5}}, kF4, exact, {40, 40, {4}, {120}});
  check("outer levels that continue the stride join", block({4, 16, 8}), {{0, 0, 0}, {4, 16, 2}}, kF4, exact,
        {0, 8, {64}, {32}});
  check("outer levels that do not stay apart", block({4, 16, 8}), {{0, 0, 0}, {4, 8, 2}}, kF4, exact,
        {0, 8, {4, 8}, {512, 32}});
  check("a dimension of extent 1 leaves no level", block({4, 16, 8}), {{1, 0, 0}, {2, 16, 2}}, kF4, exact,
        {512, 8, {16}, {32}});
  check("the header's offset is added", block({64, 128}, ElementOrder::c, 80), {{1, 0}, {2, 128}}, kF4, exact,
        {592, 512, {}, {}});
  check("two-byte elements", block({8, 4, 6}), {{4, 0, 0}, {6, 4, 3}}, dtypes::kBFloat16, exact, {192, 6, {8}, {12}});
  check("a scalar", block({}), {{}, {}}, dtypes::kFloat64, exact, {0, 8, {}, {}});
  check("F order: columns are one run", block({64, 128}, f), {{0, 16}, {64, 32}}, kF4, exact, {4096, 4096, {}, {}});
  check("F order, one dimension", block({10}, f), {{2}, {5}}, kF4, exact, {8, 12, {}, {}});
}

// covers: loading N5, R5
TEST(Coalesce, CountsTheRunsOfRowsInFortranOrder) {
  const std::int64_t n = 100;
  const Piece piece = block({n, 5, 7}, ElementOrder::f, 128);
  check("prod(trailing) runs of (hi-lo)*itemsize at stride n*itemsize", piece, {{20, 0, 0}, {50, 5, 7}}, kF4,
        exact_cost(), {128 + 80, 120, {35}, {400}});
  check("below the break-even the span is read", piece, {{20, 0, 0}, {50, 5, 7}}, kF4, merging_cost(),
        {128 + 80, 34 * 400 + 120, {}, {}});
  check("whole files are one run in either order", piece, {{0, 0, 0}, {n, 5, 7}}, kF4, exact_cost(),
        {128, 14000, {}, {}});
}

TEST(Coalesce, ReadsEdgeChunksWithTheirStoredStrides) {
  Piece chunk = block({4, 8});
  chunk.box = {{96, 40}, {100, 43}};
  check("a cut edge chunk has its full width on disk", chunk, {{97, 40}, {99, 43}}, kF4, exact_cost(),
        {32, 12, {2}, {32}});
  chunk.order = ElementOrder::f;
  check("also in F order", chunk, {{97, 40}, {99, 43}}, kF4, exact_cost(), {4, 8, {3}, {16}});
}

TEST(Coalesce, MergesRangesWhoseGapIsBelowTheLimit) {
  const CostModel warm = merging_cost();  // a request costs as much as 12,000 bytes
  CostModel slow = warm;
  slow.request_seconds = 1;
  const auto limited = [](double factor) { return CostModel{1, 1e9, factor, 0}; };
  check("G1: cheap gaps, one span", block({64, 128}), {{0, 0}, {64, 16}}, kF4, warm, {0, 32320, {}, {}});
  check("a gap of 12,000 bytes is not cheaper than a request", block({4, 3010}), {{0, 0}, {4, 10}}, kF4, warm,
        {0, 40, {4}, {12040}});
  check("dear gaps, whatever they cost, stop at the over-read allowed", block({64, 128}), {{0, 0}, {64, 16}}, kF4,
        limited(7), {0, 64, {64}, {512}});
  check("just enough over-read is allowed", block({64, 128}), {{0, 0}, {64, 16}}, kF4, limited(7.9),
        {0, 32320, {}, {}});
  check("a dear request makes large gaps worth reading", block({4, 1000000}), {{0, 0}, {4, 250000}}, kF4, slow,
        {0, 13000000, {}, {}});
  check("inner gaps merge, outer ones are too wide", block({4, 4000, 8}), {{0, 0, 0}, {4, 10, 4}}, kF4, warm,
        {0, 9 * 32 + 16, {4}, {128000}});
  check("free requests: nothing merges", block({64, 128}), {{0, 0}, {64, 127}}, kF4, exact_cost(),
        {0, 508, {64}, {512}});
}

// covers: sharding R9
TEST(Coalesce, KeepsAFewReadsExact) {
  const CostModel warm;
  check("G1: 64 runs are read as they are", block({64, 128}), {{0, 0}, {64, 16}}, kF4, warm, {0, 64, {64}, {512}});
  check("the most that stay exact", block({128, 128}), {{0, 0}, {128, 16}}, kF4, warm, {0, 64, {128}, {512}});
  check("one more, and the gaps are read", block({129, 128}), {{0, 0}, {129, 16}}, kF4, warm,
        {0, 128 * 512 + 64, {}, {}});
}

TEST(Coalesce, KeepsPackedTypesWhole) {
  const DType nibble{0, 4, 1};
  const CostModel exact = exact_cost();
  check("two elements a byte", block({4, 8}), {{0, 2}, {4, 6}}, nibble, exact, {1, 2, {4}, {4}});
  check("the last byte of an odd count", block({3}), {{0}, {3}}, nibble, exact, {0, 2, {}, {}});
  check("to the end of an odd block", block({3, 3}), {{0, 0}, {3, 3}}, nibble, exact, {0, 5, {}, {}});
  const auto refused = [&](const Shape& shape, const Box& sub) {
    try {
      exact_pattern(block(shape), sub, nibble);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::usage && error.message().find("cuts inside a byte") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused({4, 8}, {{0, 1}, {4, 3}})) << "begins inside a byte";
  EXPECT_TRUE(refused({4, 8}, {{0, 0}, {4, 3}})) << "ends inside a byte";
  EXPECT_TRUE(refused({4, 3}, {{0, 0}, {4, 2}})) << "rows of 12 bits";
  EXPECT_FALSE(refused({4, 3}, {{0, 0}, {2, 3}})) << "two rows of 12 bits are three bytes";
  EXPECT_THROW(storage_strides_bytes(block({4, 8}), nibble), Error);
}

TEST(Coalesce, RefusesSizesThatDoNotFit) {
  const auto message = [](const Piece& piece, const Box& sub) -> std::string {
    try {
      read_pattern(piece, sub, kF4, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      return error.message();
    }
    return "";
  };
  Piece wide = block({1, 4});
  wide.stored_shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_NE(message(wide, {{0, 0}, {1, 4}}).find("beyond 2^63-1 bytes"), std::string::npos);
  const Piece far = block({4, 4}, ElementOrder::c, INT64_MAX - 63);
  EXPECT_NE(message(far, {{0, 0}, {1, 1}}).find("beyond 2^63-1 bytes"), std::string::npos);
  EXPECT_EQ(message(block({4, 4}, ElementOrder::c, INT64_MAX - 64), {{0, 0}, {1, 1}}), "");
  EXPECT_THROW(read_pattern(block({4, 4}), {{0, 0}, {5, 4}}, kF4, {}), Error) << "outside the piece";
  EXPECT_THROW(read_pattern(block({4, 4}), {{2, 2}, {2, 4}}, kF4, {}), Error) << "empty";
}

TEST(Coalesce, GivesStridesByArrayDimension) {
  EXPECT_EQ(to_string(storage_strides_bytes(block({2, 3, 4}), kF4)), "(48, 16, 4)");
  EXPECT_EQ(to_string(storage_strides_bytes(block({2, 3, 4}, ElementOrder::f), kF4)), "(4, 8, 24)");
  EXPECT_EQ(to_string(storage_order(3, ElementOrder::f)), "(2, 1, 0)");
}

/// Every byte that a pattern reads.
std::multiset<std::int64_t> bytes_of(const ReadPattern& pattern) {
  std::multiset<std::int64_t> out;
  for (std::int64_t i = 0; i < pattern.num_reads(); ++i) {
    std::int64_t rest = i;
    std::int64_t at = pattern.offset_bytes;
    for (int level = pattern.counts.size() - 1; level >= 0; --level) {
      at += rest % pattern.counts[level] * pattern.strides_bytes[level];
      rest /= pattern.counts[level];
    }
    for (std::int64_t b = 0; b < pattern.run_bytes; ++b) out.insert(at + b);
  }
  return out;
}

/// Every byte that the elements of `sub` take, one by one.
std::multiset<std::int64_t> bytes_of(const Piece& piece, const Box& sub, std::int64_t itemsize) {
  const Dims strides = storage_strides_bytes(piece, kF4);
  std::multiset<std::int64_t> out;
  Dims index = sub.begin;
  for (std::int64_t k = 0; k < sub.num_elems(); ++k) {
    std::int64_t at = piece.offset_bytes;
    for (int d = 0; d < sub.ndim(); ++d) at += (index[d] - piece.box.begin[d]) * strides[d];
    for (std::int64_t b = 0; b < itemsize; ++b) out.insert(at + b);
    for (int d = sub.ndim() - 1; d >= 0; --d) {
      if (++index[d] < sub.end[d]) break;
      index[d] = sub.begin[d];
    }
  }
  return out;
}

// covers: loading R5
TEST(Coalesce, CoversExactlyTheElementsOfRandomBoxes) {
  std::mt19937 random(7);
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n + 1)); };
  for (int round = 0; round < 400; ++round) {
    Piece piece;
    Box sub;
    piece.order = round % 2 == 0 ? ElementOrder::c : ElementOrder::f;
    piece.offset_bytes = upto(40);
    for (std::int64_t d = upto(3); d >= 0; --d) {
      const std::int64_t extent = 1 + upto(6);
      const std::int64_t origin = upto(5);
      piece.stored_shape.push_back(extent + upto(2));
      piece.box.begin.push_back(origin);
      piece.box.end.push_back(origin + extent);
      const std::int64_t begin = upto(extent - 1);
      sub.begin.push_back(origin + begin);
      sub.end.push_back(origin + begin + 1 + upto(extent - begin - 1));
    }
    SCOPED_TRACE(cat("round ", round, ", box ", to_string(sub), " of ", to_string(piece.stored_shape)));
    const auto needed = bytes_of(piece, sub, 4);
    EXPECT_EQ(bytes_of(exact_pattern(piece, sub, kF4)), needed);

    const CostModel cost{static_cast<double>(upto(60)), 1, 1 + static_cast<double>(upto(8)) / 2, upto(1) * 8};
    const ReadPattern merged = read_pattern(piece, sub, kF4, cost);
    const auto read = bytes_of(merged);
    EXPECT_TRUE(std::includes(read.begin(), read.end(), needed.begin(), needed.end()));
    EXPECT_EQ(std::set<std::int64_t>(read.begin(), read.end()).size(), read.size()) << "a byte is read twice";
    EXPECT_LE(static_cast<double>(merged.bytes_read()), cost.max_over_read * static_cast<double>(needed.size()));
    const auto seconds = [&](const ReadPattern& p) {
      return static_cast<double>(p.num_reads()) * cost.request_seconds + static_cast<double>(p.bytes_read());
    };
    EXPECT_LE(seconds(merged), seconds(exact_pattern(piece, sub, kF4)));
  }
}

}  // namespace
}  // namespace loadstone
