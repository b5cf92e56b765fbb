#include "loadstone/format/write.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <numeric>

#include "tests/fakes/format_files.h"

namespace loadstone {
namespace {

const ThreadPool kPool(2);

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The bytes of all pieces, in order: the whole array, as all are plain C-order blocks.
std::string payload_of(const Catalog& catalog) {
  std::string out;
  const ArrayEntry& array = catalog.array();
  for (std::int64_t p = 0; p < array.tiling.num_pieces(); ++p) {
    const Piece piece = array.tiling.piece(p, array.dtype);
    out += slurp(catalog.files.path(piece.file))
               .substr(static_cast<std::size_t>(piece.offset_bytes), static_cast<std::size_t>(piece.stored_bytes));
  }
  return out;
}

WriteOptions options_for(Shape shape, std::int64_t shards, DType dtype = dtypes::kFloat32) {
  WriteOptions options;
  options.shape = std::move(shape);
  options.shards = shards;
  options.dtype = dtype;
  options.seed = 5;
  return options;
}

std::vector<std::string> entries(const std::string& dir) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

// covers: loading E18
TEST(WriteDataset, AnyTilingHoldsTheSameArray) {
  std::string expected(60 * 7 * 4, '\0');
  made_up_elements(dtypes::kFloat32, 5, 0, 60 * 7, reinterpret_cast<std::byte*>(expected.data()));
  for (const char* format : {"npy", "raw"}) {
    for (const std::int64_t shards : {1, 3, 60, 70}) {
      for (const bool uneven : {false, true}) {
        const TempFolder dir;
        WriteOptions options = options_for({60, 7}, shards);
        options.uneven = uneven;
        options.format = format;
        const WriteReport report = write_dataset(dir.at("new/set"), options, kPool);
        EXPECT_EQ(std::accumulate(report.rows.begin(), report.rows.end(), std::int64_t{0}), 60);
        EXPECT_EQ(static_cast<std::int64_t>(report.files.size()), shards);
        const Catalog catalog = discover({dir.at("new/set")}, {}, kPool);
        EXPECT_EQ(catalog.array().shape, (Shape{60, 7}));
        EXPECT_EQ(catalog.array().format, format);
        EXPECT_EQ(payload_of(catalog), expected);
        std::int64_t bytes = 0;
        for (std::size_t f = 0; f < report.files.size(); ++f) {
          bytes += static_cast<std::int64_t>(std::filesystem::file_size(report.files[f]));
          EXPECT_EQ(catalog.array().tiling.rows_of(static_cast<std::int64_t>(f)), report.rows[f]);
        }
        EXPECT_EQ(report.bytes, bytes);
      }
    }
  }
}

// covers: loading E18
TEST(WriteDataset, NamesPayloadsAndHeadersAreAsNumPyWritesThem) {
  const TempFolder dir;
  const WriteReport report = write_dataset(dir.path(), options_for({3, 2}, 2), kPool);
  EXPECT_EQ(report.files[0], dir.at("shard_0000.npy"));
  EXPECT_EQ(report.rows, (std::vector<std::int64_t>{2, 1}));
  const std::string head = slurp(report.files[0]).substr(0, 128);
  EXPECT_EQ(head.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(head.substr(10, 59), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }");
  EXPECT_EQ(head.back(), '\n');
  EXPECT_EQ(std::filesystem::file_size(report.files[0]), 128U + 16U);
}

// covers: loading E18
TEST(WriteDataset, UnevenRowsAreSeeded) {
  const TempFolder dir;
  WriteOptions options = options_for({1000, 1}, 9);
  options.uneven = true;
  const auto rows = write_dataset(dir.at("a"), options, kPool).rows;
  EXPECT_EQ(write_dataset(dir.at("b"), options, kPool).rows, rows);
  options.seed = 6;
  EXPECT_NE(write_dataset(dir.at("c"), options, kPool).rows, rows);
}

// covers: loading E18
TEST(WriteDataset, RefusesANonEmptyFolderAndReplacesOnlyItsOwn) {
  const TempFolder dir;
  WriteOptions options = options_for({8, 2}, 4);
  dir.put("mine.txt", "keep");
  const auto refuse = [&](const std::vector<std::string>& words) {
    expect_error(error_of([&] { write_dataset(dir.path(), options, kPool); }), ErrorKind::usage, words);
  };
  refuse({dir.path(), "not empty", "mine.txt"});
  options.replace = true;
  refuse({dir.path(), "not empty", ".loadstone-write.json"});
  std::filesystem::remove(dir.at("mine.txt"));
  write_dataset(dir.path(), options, kPool);
  options.shards = 2;
  options.format = "raw";
  write_dataset(dir.path(), options, kPool);
  EXPECT_EQ(entries(dir.path()),
            (std::vector<std::string>{".loadstone-write.json", "shard_0000.bin", "shard_0001.bin", "shard_meta.json"}));
  options.replace = false;
  refuse({"not empty", "--replace"});
  options.replace = true;
  dir.put("mine.txt", "keep");
  refuse({"mine.txt", "nothing was removed"});
  EXPECT_EQ(entries(dir.path()).size(), 5U);
  EXPECT_EQ(slurp(dir.at("mine.txt")), "keep");
}

// covers: loading E18
TEST(WriteDataset, AMarkerCannotNameFilesElsewhere) {
  const TempFolder dir;
  dir.put("outside.txt", "keep");
  WriteOptions options = options_for({2}, 1);
  options.replace = true;
  for (const char* text : {R"({"files": ["../outside.txt"]})", R"({"files": [".."]})", R"({"files": [""]})", "{", "[]",
                           R"({"files": [1]})", R"({"files": {}})", R"({"files": ["a\u0000b"]})"}) {
    dir.put("set/.loadstone-write.json", text);
    const Error error = error_of([&] { write_dataset(dir.at("set"), options, kPool); });
    expect_error(error, ErrorKind::data, {".loadstone-write.json"});
    EXPECT_EQ(slurp(dir.at("outside.txt")), "keep");
  }
}

// covers: loading E18
TEST(WriteDataset, NothingStaysWhenTheDiskIsFull) {
  const TempFolder dir;
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 100000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Error error = error_of([&] { write_dataset(dir.at("a/b"), options_for({100000, 2}, 3), kPool); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  expect_error(error, ErrorKind::system, {"shard_000", "cannot write"});
  EXPECT_NE(error.facts().os_error, 0);
  EXPECT_TRUE(entries(dir.path()).empty());
}

// covers: loading E18
TEST(WriteDataset, NothingStaysWhenItIsInterrupted) {
  const TempFolder dir;
  CancelToken cancel([calls = 0]() mutable { return ++calls > 3; });
  WriteOptions options = options_for({1000, 2}, 50);
  options.cancel = &cancel;
  EXPECT_THROW(write_dataset(dir.at("set"), options, ThreadPool(1)), Interrupted);
  EXPECT_TRUE(entries(dir.path()).empty());
}

TEST(WriteDataset, RefusesTheImpossible) {
  const TempFolder dir;
  const auto refuse = [&](const WriteOptions& options, const char* word) {
    expect_error(error_of([&] { write_dataset(dir.at("set"), options, kPool); }), ErrorKind::usage, {word});
    EXPECT_TRUE(entries(dir.path()).empty());
  };
  refuse(options_for({4}, 0), "shards");
  refuse(options_for({-4}, 1), "negative");
  refuse(options_for({1LL << 62, 8}, 1), "2^63-1");
  refuse(options_for({}, 2), "0-d");
  refuse(options_for({4}, 1, parse_dtype("int4").dtype), "int4");
  WriteOptions options = options_for({4, 0}, 1);
  options.format = "raw";
  refuse(options, "no bytes");
  options.format = "hdf6";
  refuse(options, "did you mean 'hdf5'");
  dir.put("file", "x");
  expect_error(error_of([&] { write_dataset(dir.at("file"), options_for({4}, 1), kPool); }), ErrorKind::usage,
               {"not a directory"});
  expect_error(error_of([&] { write_dataset(dir.at("file/set"), options_for({4}, 1), kPool); }), ErrorKind::system,
               {"Not a directory"});
}

TEST(WriteDataset, WritesScalarsEmptyRowsAndLostTypes) {
  const TempFolder dir;
  write_dataset(dir.at("scalar"), options_for({}, 1), kPool);
  EXPECT_EQ(discover({dir.at("scalar")}, {}, kPool).array().shape, Shape{});
  write_dataset(dir.at("none"), options_for({0, 3}, 2), kPool);
  EXPECT_EQ(discover({dir.at("none")}, {}, kPool).array().shape, (Shape{0, 3}));
  write_dataset(dir.at("flat"), options_for({5, 0}, 2), kPool);
  EXPECT_EQ(discover({dir.at("flat")}, {}, kPool).array().shape, (Shape{5, 0}));
  write_dataset(dir.at("bf16"), options_for({4}, 1, dtypes::kBFloat16), kPool);
  DiscoverOptions named;
  named.hints.dtype = DiskType{dtypes::kBFloat16, ByteOrder::little};
  EXPECT_EQ(discover({dir.at("bf16")}, named, kPool).array().dtype, dtypes::kBFloat16);
}

TEST(MadeUpElements, DependOnSeedAndIndexAlone) {
  for (const char* name : {"bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64",
                           "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "complex32"}) {
    SCOPED_TRACE(name);
    const DType dtype = parse_dtype(name).dtype;
    const auto size = static_cast<std::size_t>(dtype.itemsize());
    std::vector<std::byte> whole(1000 * size);
    made_up_elements(dtype, 9, 0, 1000, whole.data());
    std::vector<std::byte> part(100 * size);
    made_up_elements(dtype, 9, 333, 100, part.data());
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + 333 * size, part.size()), 0);
    made_up_elements(dtype, 10, 333, 100, part.data());
    EXPECT_NE(std::memcmp(part.data(), whole.data() + 333 * size, part.size()), 0);
  }
}

TEST(MadeUpElements, AreFiniteAndInRange) {
  constexpr std::int64_t kCount = 200000;
  std::vector<float> floats(kCount);
  made_up_elements(dtypes::kFloat32, 1, 0, kCount, reinterpret_cast<std::byte*>(floats.data()));
  const auto [low, high] = std::minmax_element(floats.begin(), floats.end());
  EXPECT_GE(*low, -1.0F);
  EXPECT_LT(*high, 1.0F);
  EXPECT_LT(*low, -0.99F);
  EXPECT_GT(*high, 0.99F);
  std::vector<std::uint8_t> bools(1000);
  made_up_elements(dtypes::kBool, 1, 0, 1000, reinterpret_cast<std::byte*>(bools.data()));
  EXPECT_EQ(*std::max_element(bools.begin(), bools.end()), 1);
  EXPECT_EQ(*std::min_element(bools.begin(), bools.end()), 0);
  std::vector<std::uint8_t> bytes(100000);
  const auto hits = [&](const char* name, auto bad) {
    made_up_elements(parse_dtype(name).dtype, 1, 0, 100000, reinterpret_cast<std::byte*>(bytes.data()));
    return std::count_if(bytes.begin(), bytes.end(), bad);
  };
  EXPECT_EQ(hits("float8_e4m3fn", [](std::uint8_t b) { return (b & 0x7FU) == 0x7FU; }), 0);
  EXPECT_EQ(hits("float8_e5m2", [](std::uint8_t b) { return (b & 0x7CU) == 0x7CU; }), 0);
  EXPECT_EQ(hits("float8_e4m3fnuz", [](std::uint8_t b) { return b == 0x80U; }), 0);
  EXPECT_EQ(hits("float8_e8m0fnu", [](std::uint8_t b) { return b == 0xFFU; }), 0);
  std::vector<std::uint16_t> halves(100000);
  made_up_elements(dtypes::kFloat16, 1, 0, 100000, reinterpret_cast<std::byte*>(halves.data()));
  EXPECT_TRUE(std::none_of(halves.begin(), halves.end(), [](std::uint16_t h) { return (h & 0x7C00U) == 0x7C00U; }));
  made_up_elements(dtypes::kBFloat16, 1, 0, 100000, reinterpret_cast<std::byte*>(halves.data()));
  EXPECT_TRUE(std::none_of(halves.begin(), halves.end(), [](std::uint16_t h) { return (h & 0x7F80U) == 0x7F80U; }));
}

TEST(WriteFileAtomically, ReplacesOrLeavesAlone) {
  const TempFolder dir;
  const std::string path = dir.put(std::string(250, 'n'), "old");
  write_file_atomically(path, "new", 3);
  EXPECT_EQ(slurp(path), "new");
  EXPECT_EQ(entries(dir.path()).size(), 1U);
  expect_error(error_of([&] { write_file_atomically(dir.at("none/x"), "new", 3); }), ErrorKind::system,
               {"none/x", "No such file"});
  expect_error(error_of([&] { write_file_atomically(dir.path(), "new", 3); }), ErrorKind::usage, {"a directory"});
  expect_error(error_of([&] { write_file_atomically("/dev/null", "new", 3); }), ErrorKind::usage, {"device"});
  struct stat null {};
  ASSERT_EQ(::stat("/dev/null", &null), 0);
  EXPECT_TRUE(S_ISCHR(null.st_mode));
}

}  // namespace
}  // namespace loadstone
