#include "loadstone/verify/pd61.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/pd61_kernel.h"

namespace loadstone {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::int64_t count) {
  Bytes out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((37 * i + 11) % 256);
  return out;
}

Bytes random_bytes(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes out(static_cast<std::size_t>(count));
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 255);
  return out;
}

Pd61Value digest_of(const Shape& shape, DType dtype, const Bytes& data, int lanes = 2) {
  return Pd61(shape, dtype, {}, lanes).tile(Box::whole(shape), data.data());
}

Dims byte_strides(const Shape& shape, std::int64_t itemsize) {
  Dims strides = c_strides(shape);
  for (std::int64_t& s : strides) s *= itemsize;
  return strides;
}

const std::byte* at(const Bytes& data, const Shape& shape, std::int64_t itemsize, const Dims& index) {
  return data.data() + linear_index(index, Box::whole(shape)) * itemsize;
}

class ScalarOnly {
 public:
  ScalarOnly() { setenv("LOADSTONE_PD61", "scalar", 1); }
  ScalarOnly(const ScalarOnly&) = delete;
  ScalarOnly& operator=(const ScalarOnly&) = delete;
  ~ScalarOnly() { unsetenv("LOADSTONE_PD61"); }
};

struct Golden {
  const char* phrase;
  Shape shape;
  DType dtype;
  int row_dim;
  const char* digest;
};

// Computed by tests/reference/pd61.py; the first four are the published vectors.
const Golden kGolden[] = {
    {"a scalar", {}, dtypes::kFloat32, 0, "0d70050fd00d2524-0675dfc87d8e47f1"},
    {"small, odd bytes", {2, 3, 5}, dtypes::kBFloat16, 0, "0c316e7c84a8297f-1c29d261e17f82d5"},
    {"two merged dimensions", {4, 3, 700}, dtypes::kFloat16, 1, "1d950526b4faade2-17000034500e27c5"},
    {"rows of 12301 bytes", {7, 12301}, dtypes::kUInt8, 1, "0972e4c04ff13b67-143c913af81ef869"},
    {"16-byte elements", {2, 3, 100, 3}, dtypes::kComplex128, 2, "06491e2854d59104-0d535fccea7b4ee1"},
    {"bytes past a block", {3, 4099}, dtypes::kBool, 1, "0d780059d2e177e8-097c2201750dc852"},
    {"words past a block", {5, 1030}, dtypes::kFloat32, 1, "02d1536dae4f8624-034cb14de9cbce16"},
};

// covers: engines 10
TEST(Pd61, GivesThePublishedVectors) {
  for (const Golden& row : kGolden) {
    const Bytes data = pattern(row.dtype.nbytes(num_elems(row.shape)));
    const Pd61 rule(row.shape, row.dtype);
    EXPECT_EQ(rule.row_dim(), row.row_dim) << row.phrase;
    EXPECT_EQ(to_string(rule.tile(Box::whole(row.shape), data.data())), row.digest) << row.phrase;
    const ScalarOnly scalar;
    EXPECT_EQ(pd61_backend(), "scalar");
    EXPECT_EQ(to_string(digest_of(row.shape, row.dtype, data)), row.digest) << row.phrase << ", scalar";
  }
}

// covers: engines 10
TEST(Pd61, GivesTheReferenceForATileWithOddEdges) {
  const Shape shape{3, 2050};
  const Bytes data = pattern(3 * 2050 * 2);
  const Box box{{1, 3}, {3, 2049}};
  EXPECT_EQ(to_string(Pd61(shape, dtypes::kBFloat16).tile(box, at(data, shape, 2, box.begin), {4100, 2})),
            "118eac1b84674c9a-00cc82b51ac7a6e4");
}

TEST(Pd61, OneLaneIsTheFirstOfTwo) {
  const Shape shape{9, 5000};
  const Bytes data = random_bytes(num_elems(shape) * 4, 3);
  const Pd61Value two = digest_of(shape, dtypes::kFloat32, data, 2);
  const Pd61Value one = digest_of(shape, dtypes::kFloat32, data, 1);
  EXPECT_EQ(one.lanes[0], two.lanes[0]);
  EXPECT_EQ(one.lanes[1], 0U);
  EXPECT_NE(two.lanes[1], 0U);
}

TEST(Pd61, OtherKeysGiveOtherDigests) {
  const Shape shape{3, 7};
  const Bytes data = random_bytes(21, 4);
  const Pd61Value other = Pd61(shape, dtypes::kUInt8, {1, 2}).tile(Box::whole(shape), data.data());
  EXPECT_NE(other, digest_of(shape, dtypes::kUInt8, data));
}

TEST(Pd61, RowsMergeFromTheLastDimensionThatReaches4096Bytes) {
  const auto row_dim = [](const Shape& shape, DType dtype) { return Pd61(shape, dtype).row_dim(); };
  EXPECT_EQ(row_dim({10, 1024}, dtypes::kFloat32), 1);
  EXPECT_EQ(row_dim({10, 1023}, dtypes::kFloat32), 0);
  EXPECT_EQ(row_dim({100000, 3}, dtypes::kFloat32), 0);
  EXPECT_EQ(row_dim({8, 64, 64, 3}, dtypes::kFloat32), 1);
  EXPECT_EQ(row_dim({8, 64, 64, 64}, dtypes::kUInt8), 2);
  EXPECT_EQ(row_dim({}, dtypes::kFloat32), 0);
  EXPECT_EQ(row_dim({0, 5000}, dtypes::kFloat32), 0);
  EXPECT_EQ(row_dim({3, 5}, DType{0, 64, 512}), 2);
}

// covers: engines 10
TEST(Pd61, KernelsAgreeAtEveryStartAndLength) {
  const auto tables = detail::Pd61Tables::of({});
  const Bytes data = random_bytes(4096 + 64, 5);
  for (const int lanes : {1, 2}) {
    const detail::Pd61Kernel fast = detail::pd61_avx2_kernel(lanes);
    if (fast == nullptr) GTEST_SKIP() << "no AVX2 here";
    for (int first = 0; first < 1024; first += first < 40 ? 1 : 97) {
      for (int count = 0; first + count <= 1024; count += count < 40 ? 1 : 61) {
        std::array<detail::Wide, 2> expected{};
        std::array<detail::Wide, 2> found{};
        detail::pd61_scalar_kernel(lanes)(*tables, data.data() + count % 7, first, count, expected.data());
        fast(*tables, data.data() + count % 7, first, count, found.data());
        ASSERT_TRUE(expected == found) << lanes << " " << first << " " << count;
      }
    }
  }
}

// covers: engines 10
TEST(Pd61, LargestWordsAndFullBlocksDoNotOverflow) {
  const Shape shape{4, 1 << 16};
  const Bytes data(static_cast<std::size_t>(num_elems(shape)), std::byte{0xff});
  const Pd61Value fast = digest_of(shape, dtypes::kUInt8, data);
  const ScalarOnly scalar;
  EXPECT_EQ(digest_of(shape, dtypes::kUInt8, data), fast);
}

/// Cuts a box at random into disjoint boxes that cover it.
void cut(const Box& box, int cuts, std::mt19937_64& random, std::vector<Box>& out) {
  if (cuts == 0) {
    out.push_back(box);
    return;
  }
  const int d = static_cast<int>(random() % static_cast<std::uint64_t>(box.ndim()));
  const auto middle =
      box.begin[d] + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(box.extent(d) + 1));
  Box low = box;
  Box high = box;
  low.end[d] = middle;
  high.begin[d] = middle;
  cut(low, cuts / 2, random, out);
  cut(high, cuts - 1 - cuts / 2, random, out);
}

// covers: engines 10
TEST(Pd61, TilesOfAnyPartitionSumToTheWhole) {
  struct Case {
    Shape shape;
    DType dtype;
  };
  const Case cases[] = {{{97, 901}, dtypes::kUInt8},        {{31, 2, 1301}, dtypes::kBFloat16},
                        {{13, 6001}, dtypes::kFloat8E5M2},  {{700, 3, 5}, dtypes::kFloat32},
                        {{5, 3, 301}, dtypes::kComplex128}, {{3, 4099}, dtypes::kBool}};
  for (const Case& c : cases) {
    const std::int64_t itemsize = c.dtype.itemsize();
    const Bytes data = random_bytes(num_elems(c.shape) * itemsize, 6);
    const Pd61 rule(c.shape, c.dtype);
    const Pd61Value whole = rule.tile(Box::whole(c.shape), data.data());
    const Dims strides = byte_strides(c.shape, itemsize);
    std::mt19937_64 random(7);
    for (int round = 0; round < 300; ++round) {
      std::vector<Box> boxes;
      cut(Box::whole(c.shape), 1 + round % 40, random, boxes);
      Pd61Value sum;
      for (const Box& box : boxes) sum += rule.tile(box, at(data, c.shape, itemsize, box.begin), strides);
      ASSERT_EQ(sum, whole) << to_string(c.dtype) << " round " << round;
    }
  }
}

// covers: engines 10
TEST(Pd61, FindsEveryCorruption) {
  const Shape shape{97, 901};
  const Bytes data = random_bytes(num_elems(shape), 8);
  const Pd61 rule(shape, dtypes::kUInt8, {}, 1);
  const Box whole = Box::whole(shape);
  const Pd61Value right = rule.tile(whole, data.data());
  std::mt19937_64 random(9);
  const auto row = [&](Bytes& bytes, std::int64_t r) { return bytes.begin() + r * shape[1]; };
  for (int round = 0; round < 2000; ++round) {
    Bytes bad = data;
    const auto a = static_cast<std::int64_t>(random() % 97);
    const std::int64_t b = (a + 1 + static_cast<std::int64_t>(random() % 96)) % 97;
    switch (round % 4) {
      case 0: bad[random() % bad.size()] ^= static_cast<std::byte>(1U << (random() % 8)); break;
      case 1: std::swap_ranges(row(bad, a), row(bad, a + 1), row(bad, b)); break;
      case 2:
        std::rotate(row(bad, a), row(bad, a) + 1 + static_cast<std::int64_t>(random() % 900), row(bad, a + 1));
        break;
      default: std::fill(row(bad, a), row(bad, a + 1), std::byte{0}); break;
    }
    ASSERT_NE(rule.tile(whole, bad.data()), right) << "round " << round;
  }
}

// covers: engines 10
TEST(Pd61, SumsAndXorsMissWhatItFinds) {
  const Shape shape{16, 64};
  Bytes data = random_bytes(num_elems(shape), 10);
  const auto plain = [](const Bytes& bytes) {
    std::pair<unsigned, unsigned> out{0, 0};
    for (const std::byte b : bytes) {
      out.first += static_cast<unsigned>(b);
      out.second ^= static_cast<unsigned>(b);
    }
    return out;
  };
  const auto before = plain(data);
  const Pd61Value right = digest_of(shape, dtypes::kUInt8, data);
  std::swap_ranges(data.begin(), data.begin() + 64, data.begin() + 64);
  EXPECT_EQ(plain(data), before);
  EXPECT_NE(digest_of(shape, dtypes::kUInt8, data), right);
}

// covers: engines 10
TEST(Pd61, LogicalIndicesCountWhateverTheStrides) {
  const Shape shape{6, 35, 41};
  for (const std::int64_t itemsize : {1, 2, 4, 8, 16}) {
    const DType dtype{1, static_cast<std::uint8_t>(8 * std::min<std::int64_t>(itemsize, 8)),
                      static_cast<std::uint16_t>(itemsize == 16 ? 2 : 1)};
    const Bytes data = random_bytes(num_elems(shape) * itemsize, 11);
    const Pd61 rule(shape, dtype);
    const Box box{{1, 2, 3}, {5, 33, 40}};
    const Dims c = byte_strides(shape, itemsize);
    const Pd61Value right = rule.tile(box, at(data, shape, itemsize, box.begin), c);

    const Shape extent = box.shape();
    const std::int64_t bytes = num_elems(extent) * itemsize;
    StridedBytes from{const_cast<std::byte*>(at(data, shape, itemsize, box.begin)), c};
    const auto check = [&](const char* what, Dims strides, std::int64_t origin, std::int64_t room) {
      Bytes copy(static_cast<std::size_t>(room));
      strided_copy({copy.data() + origin, strides}, from, extent, itemsize);
      EXPECT_EQ(rule.tile(box, copy.data() + origin, strides), right) << what << ", itemsize " << itemsize;
    };
    check("C order", byte_strides(extent, itemsize), 0, bytes);
    Dims f = f_strides(extent);
    for (std::int64_t& s : f) s *= itemsize;
    check("F order", f, 0, bytes);
    check("every other element", {2 * extent[1] * extent[2] * itemsize, 2 * extent[2] * itemsize, 2 * itemsize}, 0,
          2 * bytes);
    check("rows with gaps", {extent[1] * (extent[2] + 5) * itemsize, (extent[2] + 5) * itemsize, itemsize}, 0,
          num_elems({extent[0], extent[1], extent[2] + 5}) * itemsize);
    check("backwards", {-extent[1] * extent[2] * itemsize, -extent[2] * itemsize, -itemsize}, bytes - itemsize, bytes);
    check("middle axis backwards", {extent[1] * extent[2] * itemsize, -extent[2] * itemsize, itemsize},
          (extent[1] - 1) * extent[2] * itemsize, bytes);
  }
}

TEST(Pd61, BroadcastValuesCountOncePerIndex) {
  const Shape shape{3, 50};
  const Bytes one{std::byte{7}};
  const Bytes full(150, std::byte{7});
  EXPECT_EQ(Pd61(shape, dtypes::kUInt8).tile(Box::whole(shape), one.data(), {0, 0}),
            digest_of(shape, dtypes::kUInt8, full));
}

TEST(Pd61, PackedTypesAreTheirBytes) {
  const DType int4{0, 4, 1};
  const Bytes data = random_bytes(2000, 12);
  const Pd61 packed({4, 1000}, int4);
  const Pd61Value whole = packed.tile(Box::whole({4, 1000}), data.data());
  EXPECT_EQ(whole, digest_of({4, 500}, dtypes::kUInt8, data));

  const Box left{{0, 0}, {4, 6}};
  const Box right{{0, 6}, {4, 1000}};
  Bytes left_bytes;
  Bytes right_bytes;
  for (std::size_t r = 0; r < 4; ++r) {
    const auto row = data.begin() + static_cast<std::ptrdiff_t>(500 * r);
    left_bytes.insert(left_bytes.end(), row, row + 3);
    right_bytes.insert(right_bytes.end(), row + 3, row + 500);
  }
  Pd61Value sum = packed.tile(left, left_bytes.data());
  sum += packed.tile(right, right_bytes.data());
  EXPECT_EQ(sum, whole);
  EXPECT_THROW(packed.tile({{0, 0}, {4, 7}}, data.data()), Error);

  // 3 x 5 elements of 4 bits end in half a byte; the other half is padding.
  Bytes odd = random_bytes(8, 13);
  const Pd61Value before = Pd61({3, 5}, int4).tile(Box::whole({3, 5}), odd.data());
  odd[7] ^= std::byte{0xf0};
  EXPECT_EQ(Pd61({3, 5}, int4).tile(Box::whole({3, 5}), odd.data()), before);
  odd[7] ^= std::byte{0x01};
  EXPECT_NE(Pd61({3, 5}, int4).tile(Box::whole({3, 5}), odd.data()), before);
}

TEST(Pd61, RefusesWhatHasNoDigest) {
  const Bytes data = pattern(64);
  const auto message = [](const auto& run) {
    try {
      run();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([&] {
              Pd61({2, 3}, dtypes::kUInt8).tile({{0, 1}, {2, 4}}, data.data());
            }),
            "box [0:2, 1:4] does not lie inside an array of shape (2, 3)");
  EXPECT_EQ(message([&] { Pd61({2}, dtypes::kUInt8, {}, 3); }), "a digest has 1 or 2 lanes, not 3");
  EXPECT_THROW(Pd61({std::int64_t{1} << 62, 4}, dtypes::kFloat32), Error);
  EXPECT_EQ(Pd61({0, 5}, dtypes::kFloat32).tile(Box::whole({0, 5}), nullptr), Pd61Value{});
}

/// First line the command prints; "" when it fails.
std::string first_line(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 256> buffer{};
  if (fgets(buffer.data(), buffer.size(), pipe) != nullptr) out = buffer.data();
  if (pclose(pipe) != 0) return "";
  return out.substr(0, out.find('\n'));
}

// covers: engines 10
TEST(Pd61, EqualsTheReferenceInPython) {
  if (first_line("python3 -c 'print(1)' 2>/dev/null") != "1") GTEST_SKIP() << "no python3";
  const auto script = std::filesystem::path(__FILE__).parent_path() / "../../../tests/reference/pd61.py";
  if (!std::filesystem::exists(script)) GTEST_SKIP() << "no source tree at " << script;
  const auto file = std::filesystem::temp_directory_path() / cat("loadstone_pd61_", getpid(), ".bin");

  struct Case {
    Shape shape;
    std::int64_t itemsize;
    Box box;
  };
  const Case cases[] = {{{3, 2050}, 2, {{0, 3}, {3, 2047}}},
                        {{5, 7, 3}, 1, {{1, 0, 1}, {5, 6, 3}}},
                        {{2, 3, 100, 3}, 16, {{0, 1, 7, 0}, {2, 3, 100, 2}}},
                        {{40, 33}, 8, {{39, 0}, {40, 33}}}};
  for (const Case& c : cases) {
    const DType dtype{1, 8, static_cast<std::uint16_t>(c.itemsize)};
    const Bytes data = random_bytes(num_elems(c.shape) * c.itemsize, 14);
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    std::string shape;
    std::string box;
    for (int d = 0; d < c.shape.size(); ++d) {
      shape += cat(c.shape[d], ",");
      box += cat(c.box.begin[d], ":", c.box.end[d], ",");
    }
    const std::string command =
        cat("python3 '", script.string(), "' raw '", file.string(), "' --shape ", shape, " --itemsize ", c.itemsize);
    const Pd61 rule(c.shape, dtype);
    EXPECT_EQ(first_line(command), to_string(rule.tile(Box::whole(c.shape), data.data())));
    const Pd61Value tile =
        rule.tile(c.box, at(data, c.shape, c.itemsize, c.box.begin), byte_strides(c.shape, c.itemsize));
    EXPECT_EQ(first_line(command + " --box " + box), to_string(tile));
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace loadstone
