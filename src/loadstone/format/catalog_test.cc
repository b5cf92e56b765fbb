#include "loadstone/format/catalog.h"

#include <gtest/gtest.h>

#include <random>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone {
namespace {

constexpr DType kF32 = dtypes::kFloat32;

Tiling stack(const std::vector<std::int64_t>& rows, Shape trailing) {
  Tiling tiling(std::move(trailing));
  std::int32_t file = 0;
  for (const std::int64_t r : rows) tiling.add_plain(r, file++, 128, ByteOrder::little, ElementOrder::c);
  return tiling;
}

std::vector<std::int64_t> numbers(const Tiling& tiling, const Box& box, std::int64_t first = 0) {
  std::vector<std::int64_t> out;
  tiling.for_each_overlap(
      box, kF32,
      [&](const Piece& piece) {
        out.push_back(piece.number);
        return true;
      },
      first);
  return out;
}

// covers: loading D7, loading R1
TEST(Tiling, FindsThePartsUnderATileByTheRowTable) {
  const Tiling tiling = stack({3, 0, 4, 3}, {2});
  EXPECT_EQ(tiling.row_bounds(), (std::vector<std::int64_t>{0, 3, 3, 7, 10}));
  EXPECT_EQ(tiling.shape(), (Shape{10, 2}));
  // Four devices of loading section 1: tiles [0,3) [3,6) [6,9) [9,10).
  EXPECT_EQ(numbers(tiling, {{0, 0}, {3, 2}}), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(numbers(tiling, {{3, 0}, {6, 2}}), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(numbers(tiling, {{6, 0}, {9, 2}}), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(numbers(tiling, {{9, 0}, {10, 2}}), (std::vector<std::int64_t>{3}));
  EXPECT_TRUE(numbers(tiling, {{4, 1}, {4, 2}}).empty());
}

TEST(Tiling, GivesEachPlainPieceItsExtent) {
  Tiling tiling({2, 3});
  tiling.add_plain(4, 7, 80, ByteOrder::big, ElementOrder::f);
  const Piece piece = tiling.piece(0, kF32);
  EXPECT_EQ(piece.file, 7);
  EXPECT_EQ(piece.offset_bytes, 80);
  EXPECT_EQ(piece.stored_bytes, 4 * 6 * 4);
  EXPECT_EQ(piece.byte_order, ByteOrder::big);
  EXPECT_EQ(piece.order, ElementOrder::f);
  EXPECT_EQ(piece.encoding, -1);
  EXPECT_TRUE(tiling.all_plain());
}

// covers: loading D7
TEST(Tiling, RefusesRowCountsThatOverflow) {
  Tiling tiling({1});
  tiling.add_plain(INT64_MAX, 0, 0, ByteOrder::little, ElementOrder::c);
  EXPECT_THROW(tiling.add_plain(1, 1, 0, ByteOrder::little, ElementOrder::c), Error);
}

ChunkGrid grid_for(Shape chunk, std::int64_t chunks) {
  ChunkGrid grid;
  grid.chunk_shape = std::move(chunk);
  for (std::int64_t k = 0; k < chunks; ++k) {
    grid.offsets.push_back(k * 1000);
    grid.stored_bytes.push_back(900);
  }
  return grid;
}

TEST(Tiling, CutsEdgeChunksToTheArrayAndKeepsTheirStoredShape) {
  Tiling tiling({5});
  tiling.add_grid(5, 0, grid_for({2, 3}, 6), ByteOrder::little, ElementOrder::c, 0);
  EXPECT_EQ(tiling.num_pieces(), 6);
  const Piece last = tiling.piece(5, kF32);
  EXPECT_EQ(last.box, (Box{{4, 3}, {5, 5}}));
  EXPECT_EQ(last.stored_shape, (Shape{2, 3}));
  EXPECT_EQ(last.offset_bytes, 5000);
  EXPECT_EQ(last.stored_bytes, 900);
  EXPECT_FALSE(tiling.all_plain());
}

TEST(Tiling, TakesRowGroupsAndAbsentChunks) {
  Tiling tiling;
  ChunkGrid groups;
  groups.row_bounds = {0, 4, 5, 10};
  groups.offsets = {0, -1, 70};
  groups.stored_bytes = {40, 0, 50};
  tiling.add_plain(2, 0, 16, ByteOrder::little, ElementOrder::c);
  tiling.add_grid(10, 1, std::move(groups), ByteOrder::little, ElementOrder::c, 0);
  EXPECT_EQ(tiling.num_pieces(), 4);
  EXPECT_EQ(tiling.piece(1, kF32).box, (Box{{2}, {6}}));
  EXPECT_TRUE(tiling.piece(2, kF32).absent);
  EXPECT_EQ(numbers(tiling, {{1}, {7}}), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(numbers(tiling, {{1}, {7}}, 2), (std::vector<std::int64_t>{2}));
}

TEST(Tiling, RefusesAChunkShapeOfZero) {
  Tiling tiling({4});
  EXPECT_THROW(tiling.add_grid(4, 0, grid_for({0, 2}, 1), ByteOrder::little, ElementOrder::c), Error);
}

// covers: loading D22
TEST(Tiling, WalksOnlyTheHitsOfABoxAmongManyPieces) {
  const Tiling tiling = stack(std::vector<std::int64_t>(100000, 4), {8});
  EXPECT_EQ(numbers(tiling, {{200000, 0}, {200009, 8}}), (std::vector<std::int64_t>{50000, 50001, 50002}));
}

TEST(Tiling, OverlapsAgreeWithAScanOfAllPiecesFromAnyStart) {
  std::mt19937_64 random(7);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const Shape trailing{pick(1, 5), pick(1, 4)};
    Tiling tiling(trailing);
    for (std::int64_t parts = pick(1, 5); parts > 0; --parts) {
      const std::int64_t rows = pick(0, 6);
      if (pick(0, 1) == 0) {
        tiling.add_plain(rows, 0, 0, ByteOrder::little, ElementOrder::c);
      } else {
        const Shape chunk{pick(1, 4), pick(1, 5), pick(1, 4)};
        const std::int64_t chunks = (rows + chunk[0] - 1) / chunk[0] * ((trailing[0] + chunk[1] - 1) / chunk[1]) *
                                    ((trailing[1] + chunk[2] - 1) / chunk[2]);
        tiling.add_grid(rows, 0, grid_for(chunk, chunks), ByteOrder::little, ElementOrder::c);
      }
    }
    const Shape shape = tiling.shape();
    Box box = Box::whole(shape);
    for (int d = 0; d < 3; ++d) {
      box.begin[d] = pick(0, shape[d]);
      box.end[d] = pick(box.begin[d], shape[d]);
    }
    const std::int64_t first = pick(0, tiling.num_pieces());
    std::vector<std::int64_t> expected;
    std::int64_t volume = 0;
    for (std::int64_t n = 0; n < tiling.num_pieces(); ++n) {
      const Box part = tiling.piece(n, kF32).box;
      volume += part.num_elems();
      if (n >= first && !box.empty() && overlaps(part, box)) expected.push_back(n);
    }
    EXPECT_EQ(numbers(tiling, box, first), expected) << to_string(box) << " of " << to_string(shape);
    EXPECT_EQ(volume, num_elems(shape));
  }
}

TEST(Tiling, TreatsAScalarAsOnePiece) {
  Tiling tiling;
  tiling.set_scalar();
  tiling.add_plain(1, 0, 64, ByteOrder::little, ElementOrder::c);
  EXPECT_EQ(tiling.shape(), Shape{});
  EXPECT_EQ(numbers(tiling, Box{}), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(tiling.piece(0, kF32).stored_bytes, 4);
}

// covers: loading D20, loading D22
TEST(FileTable, KeepsAnyBytesOfANameAndLittleElse) {
  FileTable files;
  const std::string odd("sh\xff\nard.npy");
  files.add("a", {1, 2});
  files.add(odd, {3, 4});
  EXPECT_EQ(files.path(0), "a");
  EXPECT_EQ(files.path(1), odd);
  EXPECT_EQ(files.stamp(1), (FileStamp{3, 4}));
}

Catalog two_arrays() {
  Catalog catalog;
  for (const char* name : {"weights", "bias"}) {
    ArrayEntry array;
    array.name = name;
    array.format = "npy";
    array.dtype = kF32;
    array.tiling = stack({3, 0, 4, 1, 1, 1, 1, 1, 1, 1}, {2});
    array.shape = array.tiling.shape();
    catalog.arrays.push_back(std::move(array));
  }
  return catalog;
}

TEST(Catalog, AsksForANameWhenThereAreSeveralArrays) {
  const Catalog catalog = two_arrays();
  try {
    catalog.array();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(error.message().find("weights, bias"), std::string::npos) << error.message();
  }
  try {
    catalog.array("weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("did you mean 'weights'"), std::string::npos) << error.message();
  }
  EXPECT_EQ(catalog.array("bias").name, "bias");
}

// covers: loading D9
TEST(Catalog, PrintsWhatInspectShows) {
  const std::string text = to_string(two_arrays());
  EXPECT_NE(text.find("weights: float32 (14, 2), 112 B (112 bytes), npy, little-endian, C order"), std::string::npos)
      << text;
  EXPECT_NE(text.find("10 files, rows 3, 0, 4, 1, 1, 1, 1, 1 and 2 more; total 14; trailing shape (2,)"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace loadstone
