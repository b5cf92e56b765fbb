#include <gtest/gtest.h>
#include <sys/stat.h>

#include "loadstone/format/discover.h"
#include "tests/fakes/format_files.h"

namespace loadstone {
namespace {

const ThreadPool kPool(3);

Catalog find(const std::vector<std::string>& paths, const DiscoverOptions& options = {}) {
  return discover(paths, options, kPool);
}
Error refusal(const std::vector<std::string>& paths, const DiscoverOptions& options = {}) {
  return error_of([&] { find(paths, options); });
}

bool mentions(const std::vector<std::string>& texts, std::string_view word) {
  for (const std::string& text : texts) {
    if (text.find(word) != std::string::npos) return true;
  }
  return false;
}

DiscoverOptions raw_options(std::string_view dtype, Shape row_shape) {
  DiscoverOptions options;
  options.raw = true;
  options.hints.dtype = parse_dtype(dtype);
  options.hints.row_shape = std::move(row_shape);
  return options;
}

// covers: loading D10, W1, W2, W3
TEST(DiscoverRaw, RawFilesAreDescribedByOptionsOrASidecar) {
  const TempFolder dir;
  dir.put("s0.bin", std::string(24, 'x'));
  dir.put("s1.bin", "");
  dir.put("s2.bin", std::string(12, 'x'));
  dir.put("README", "hello");
  CountingSources sources;
  DiscoverOptions options = raw_options("f4", {3});
  options.sources = &sources;
  const Catalog by_options = find({dir.path()}, options);
  EXPECT_EQ(by_options.array().shape, (Shape{3, 3}));
  EXPECT_EQ(by_options.array().format, "raw");
  EXPECT_EQ(sources.opens, 3);
  EXPECT_EQ(sources.bytes, 0);
  EXPECT_TRUE(mentions(by_options.left_out, "README"));

  expect_error(refusal({dir.at("*.bin")}), ErrorKind::data, {"s0.bin", "--dtype"});
  DiscoverOptions bare;
  bare.raw = true;
  expect_error(refusal({dir.path()}, bare), ErrorKind::usage, {"--dtype"});

  dir.put("shard_meta.json", R"({"dtype": "<f4", "row_shape": [3], "offset": 0, "order": "C"})");
  EXPECT_EQ(find({dir.path()}).arrays, by_options.arrays);
  EXPECT_EQ(find({dir.at("*.bin")}).array().shape, (Shape{3, 3}));
  EXPECT_EQ(find({dir.path()}, bare).arrays, by_options.arrays);
  EXPECT_EQ(find({dir.path()}, raw_options("i2", {2})).array().shape, (Shape{9, 2}));

  dir.put("shard_meta.json",
          R"({"dtype": "<f4", "row_shape": [3], "files": {"s2.bin": {"offset": 12}, "s1.bin": {"dtype": ">f4"}}})");
  const Catalog per_file = find({dir.path()});
  EXPECT_EQ(per_file.array().shape, (Shape{2, 3}));
  EXPECT_EQ(per_file.array().tiling.piece(1, dtypes::kFloat32).byte_order, ByteOrder::big);
}

// covers: loading D10
TEST(DiscoverRaw, AMalformedSidecarIsAnErrorOnlyWhereItIsNeeded) {
  const TempFolder dir;
  dir.put("s0.bin", std::string(24, 'x'));
  dir.put("shard_meta.json", "{");
  expect_error(refusal({dir.path()}), ErrorKind::data, {"shard_meta.json", "JSON"});
  DiscoverOptions bare;
  bare.raw = true;
  expect_error(refusal({dir.path()}, bare), ErrorKind::data, {"shard_meta.json", "JSON"});
  EXPECT_TRUE(mentions(find({dir.path()}, raw_options("f4", {3})).notes, "shard_meta.json"));
  dir.put("npy/a.npy", npy_rows(2));
  dir.put("npy/shard_meta.json", "[1]");
  EXPECT_TRUE(mentions(find({dir.at("npy")}).notes, "expected an object"));
  std::filesystem::remove(dir.at("shard_meta.json"));
  ASSERT_EQ(::mkfifo(dir.at("shard_meta.json").c_str(), 0600), 0);
  expect_error(refusal({dir.path()}, bare), ErrorKind::data, {"shard_meta.json", "not a regular file"});
}

// covers: loading D10
TEST(DiscoverRaw, ASidecarBesideNpyNeverDecidesAndMayNotContradict) {
  const TempFolder dir;
  dir.put("a.npy", npy_rows(4, 2));
  for (const auto& [text, word] :
       std::vector<std::pair<std::string, std::string>>{{R"({"dtype": "f8"})", "float64"},
                                                        {R"({"row_shape": [3]})", "(3,)"},
                                                        {R"({"order": "F"})", "order F"},
                                                        {R"({"shape": [5, 2]})", "(5, 2)"}}) {
    dir.put("shard_meta.json", text);
    expect_error(refusal({dir.path()}), ErrorKind::data, {"a.npy", "contradicts", "shard_meta.json", word});
  }
  dir.put("shard_meta.json", R"({"dtype": ">f4", "row_shape": [2], "offset": 0, "order": "C"})");
  const Catalog catalog = find({dir.path()});
  EXPECT_EQ(catalog.array().tiling.piece(0, dtypes::kFloat32).offset_bytes, 128);
  EXPECT_EQ(catalog.array().tiling.piece(0, dtypes::kFloat32).byte_order, ByteOrder::little);
}

TEST(DiscoverRaw, RawNeedsToKnowWhichFilesAreRaw) {
  const TempFolder dir;
  dir.put("a.f32", std::string(4, 'x'));
  dir.put("b.f32", std::string(4, 'x'));
  EXPECT_EQ(find({dir.path()}, raw_options("f4", {})).array().shape, (Shape{2}));
  dir.put("c.i32", std::string(4, 'x'));
  expect_error(refusal({dir.path()}, raw_options("f4", {})), ErrorKind::usage, {".f32", ".i32"});
  EXPECT_EQ(find({dir.at("*.f32")}, raw_options("f4", {})).array().shape, (Shape{2}));
}

}  // namespace
}  // namespace loadstone
