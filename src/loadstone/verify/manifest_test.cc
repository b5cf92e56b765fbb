#include "loadstone/verify/manifest.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/slices.h"

namespace loadstone {
namespace {

using Bytes = std::vector<std::byte>;
namespace fs = std::filesystem;

Bytes random_bytes(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes out(static_cast<std::size_t>(count));
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 255);
  return out;
}

/// Reads boxes of a C-order array in memory.
SourceReader reader_of(const Bytes& data, const Shape& shape, std::int64_t itemsize) {
  return [&data, shape, itemsize](const Box& box, std::span<std::byte> dst) {
    Dims from = c_strides(shape);
    Dims to = c_strides(box.shape());
    for (std::int64_t& s : from) s *= itemsize;
    for (std::int64_t& s : to) s *= itemsize;
    auto* first = const_cast<std::byte*>(data.data()) + linear_index(box.begin, Box::whole(shape)) * itemsize;
    ASSERT_EQ(static_cast<std::int64_t>(dst.size()), box.num_elems() * itemsize);
    strided_copy({dst.data(), to}, {first, from}, box.shape(), itemsize);
  };
}

class TempDir {
 public:
  TempDir() : path_(fs::temp_directory_path() / cat("loadstone_manifest_", ::getpid())) { fs::create_directory(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { fs::remove_all(path_); }
  std::string operator/(const char* name) const { return (path_ / name).string(); }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

template <typename Run>
Error error_of(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::internal, "no error");
}

Manifest example() {
  const Shape shape{3, 2};
  const Bytes data = random_bytes(24, 1);
  Manifest manifest;
  manifest.arrays.push_back(digest_array("w", dtypes::kFloat32, shape, reader_of(data, shape, 4), ThreadPool(1)));
  return manifest;
}

TEST(Slices, FollowEachOtherInTheBytesOfTheBox) {
  const Box box{{1, 2, 3}, {5, 9, 40}};
  for (const std::int64_t limit : {1, 4, 100, 148, 1000, 1036, 3000, 100000}) {
    std::int64_t next = 0;
    for (const Box& slice : detail::contiguous_slices(box, dtypes::kFloat32, limit)) {
      ASSERT_TRUE(box.contains(slice));
      ASSERT_EQ(linear_index(slice.begin, box), next);
      next += slice.num_elems();
      Dims last = slice.end;
      for (std::int64_t& i : last) --i;
      ASSERT_EQ(linear_index(last, box), next - 1) << "contiguous";
      ASSERT_LE(slice.num_elems() * 4, std::max<std::int64_t>(limit, 4));
    }
    EXPECT_EQ(next, box.num_elems());
  }
  EXPECT_TRUE(detail::contiguous_slices({{2, 0}, {2, 5}}, dtypes::kInt8, 10).empty());
  EXPECT_EQ(detail::contiguous_slices({}, dtypes::kInt8, 10).size(), 1U);
}

// covers: loading D10
TEST(Manifest, DigestIsThatOfTheWholeWhateverTheThreads) {
  struct Case {
    Shape shape;
    DType dtype;
    std::int64_t rows_per_block;
  };
  const Case cases[] = {{{10000, 7, 3}, dtypes::kFloat32, 3}, {{4096, 5}, dtypes::kBFloat16, 1},
                        {{4097, 5}, dtypes::kUInt8, 2},       {{2, 300000, 2}, dtypes::kFloat32, 1},
                        {{}, dtypes::kComplex128, 0},         {{0, 5}, dtypes::kInt8, 0},
                        {{5, 0}, dtypes::kInt8, 0},           {{3000000}, dtypes::kUInt8, 733}};
  for (const Case& c : cases) {
    const Bytes data = random_bytes(num_elems(c.shape) * c.dtype.itemsize(), 2);
    const SourceReader read = reader_of(data, c.shape, c.dtype.itemsize());
    const ManifestArray one = digest_array("a", c.dtype, c.shape, read, ThreadPool(1));
    EXPECT_EQ(one, digest_array("a", c.dtype, c.shape, read, ThreadPool(3)));
    EXPECT_EQ(one.digest, Pd61(c.shape, c.dtype).tile(Box::whole(c.shape), data.data()));
    EXPECT_EQ(one.rows_per_block, c.rows_per_block) << to_string(c.shape);
    EXPECT_LE(one.blocks.size(), 4096U);
    Pd61Value sum;
    for (const Pd61Value& block : one.blocks) sum += block;
    EXPECT_TRUE(one.blocks.empty() || sum == one.digest);
    Manifest manifest;
    manifest.arrays.push_back(one);
    EXPECT_EQ(parse_manifest(to_json(manifest), "m.json"), manifest);
  }
}

TEST(Manifest, BlocksOfPackedTypesCutNoByte) {
  const DType int4{0, 4, 1};
  const Shape shape{9001, 3};
  const Bytes data = random_bytes(int4.nbytes(num_elems(shape)), 3);
  const SourceReader read = [&](const Box& box, std::span<std::byte> dst) {
    const std::int64_t bit = linear_index(box.begin, Box::whole(shape)) * 4;
    ASSERT_EQ(bit % 8, 0);
    std::memcpy(dst.data(), data.data() + bit / 8, dst.size());
  };
  const ManifestArray array = digest_array("q", int4, shape, read, ThreadPool(2));
  EXPECT_EQ(array.rows_per_block, 8);
  EXPECT_EQ(array.digest, Pd61(shape, int4).tile(Box::whole(shape), data.data()));
}

// covers: loading D10
TEST(Manifest, TextIsTheSameEveryTime) {
  const std::string text = to_json(example());
  EXPECT_EQ(text, to_json(example()));
  EXPECT_EQ(text.substr(0, text.find("\"digest\"")),
            "{\n  \"schema\": 1,\n  \"kind\": \"loadstone-manifest\",\n  \"rule\": \"PD61/1\",\n"
            "  \"key_id\": \"loadstone-default\",\n  \"arrays\": [\n    {\n      \"name\": \"w\",\n"
            "      \"dtype\": \"float32\",\n      \"shape\": [3, 2],\n      \"bytes\": 24,\n      ");
  EXPECT_EQ(parse_manifest(text, "m.json"), example());
  EXPECT_EQ(to_json(parse_manifest(to_json(Manifest{}), "m.json")), to_json(Manifest{}));
}

TEST(Manifest, AwkwardNamesAndTypesSurvive) {
  Manifest manifest = example();
  manifest.arrays[0].name = "a \"b\"\n/\\ \xc3\xa9";
  manifest.arrays[0].dtype = {200, 16, 2};
  EXPECT_EQ(parse_manifest(to_json(manifest), "m.json"), manifest);
  manifest.arrays[0].name = "\xff";
  EXPECT_EQ(error_of([&] { to_json(manifest); }).message(),
            "array name '\\xff' is not UTF-8 and cannot be written to a manifest");
}

TEST(Manifest, FindsArraysByName) {
  const Manifest manifest = example();
  EXPECT_EQ(manifest.find("w"), manifest.arrays.data());
  EXPECT_EQ(manifest.find("v"), nullptr);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// covers: loading D10
TEST(Manifest, MalformedOnesAreDataErrorsThatSayWhere) {
  const std::string good = to_json(example());
  const std::string digest = to_string(example().arrays[0].digest).substr(0, 16);
  struct Case {
    std::string text;
    std::string message;
  };
  const Case cases[] = {
      {"[]", "'m.json': not a manifest: expected an object, found array"},
      {"{}", "'m.json': not a manifest: 'schema' is missing"},
      {replaced(good, "\"schema\": 1", "\"schema\": 2"), "'m.json': another schema: expected 1, found 2"},
      {replaced(good, "PD61/1", "PD61/9"), "'m.json': rule: unknown: expected 'PD61/1', found 'PD61/9'"},
      {replaced(good, "loadstone-default", "mine"),
       "'m.json': key_id: unknown: expected 'loadstone-default', found 'mine'"},
      {replaced(good, "\"kind\"", "\"schema\""), "'m.json': the key 'schema' occurs twice"},
      {replaced(good, "\"bytes\": 24", "\"bytes\": 25"),
       "'m.json': arrays[0].bytes: shape (3, 2) of float32 has another size: expected 24, found 25"},
      {replaced(good, "\"bytes\": 24", "\"bytes\": 2.5"),
       "'m.json': arrays[0].bytes: wrong type: expected an integer, found a number that is none"},
      {replaced(good, "\"bytes\": 24", "\"bytes\": -24"),
       "'m.json': arrays[0].bytes: out of range: expected 0 to 2^63-1, found -24"},
      {replaced(good, "\"bytes\": 24", "\"byte\": 24"), "'m.json': arrays[0]: unknown key 'byte'"},
      {replaced(good, "\"name\": \"w\",", ""), "'m.json': arrays[0]: 'name' is missing"},
      {replaced(good, "\"name\": \"w\"", "\"name\": 3"),
       "'m.json': arrays[0].name: wrong type: expected a string, found number"},
      {replaced(good, "float32", "float31"), "'m.json': arrays[0].dtype: unknown dtype 'float31'"},
      {replaced(good, "float32", "<f4"),
       "'m.json': arrays[0].dtype: dtype '<f4' is not spelled as a manifest spells it"},
      {replaced(good, "[3, 2]", "[9000000000000000000, 2]"),
       "'m.json': arrays[0]: shape (9000000000000000000, 2) has more than 2^63-1 elements"},
      {replaced(good, "\"rows_per_block\": 1", "\"rows_per_block\": 0"),
       "'m.json': arrays[0].rows_per_block: wrong for shape (3, 2): expected at least 1, found 0"},
      {replaced(good, "\"rows_per_block\": 1", "\"rows_per_block\": 2"),
       "'m.json': arrays[0].blocks: wrong number for 3 rows in blocks of 2: expected 2, found 3"},
      {replaced(good, digest, "ffffffffffffffff"),
       "'m.json': arrays[0].digest: not a digest: expected 16 hex digits below 2^61-1, found 'ffffffffffffffff'"},
      {replaced(good, digest, "0123"),
       "'m.json': arrays[0].digest: not a digest: expected 16 hex digits below 2^61-1, found '0123'"},
  };
  for (const Case& c : cases) {
    const Error error = error_of([&] { parse_manifest(c.text, "m.json"); });
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(error.message(), c.message);
    EXPECT_EQ(error.facts().file, "m.json");
  }
  const Error sum = error_of([&] { parse_manifest(replaced(good, digest, "0000000000000001"), "m.json"); });
  EXPECT_NE(sum.message().find("arrays[0].digest: is not the sum of its blocks"), std::string::npos);
}

TEST(Manifest, SurvivesTruncationNestingAndNoise) {
  const std::string good = to_json(example());
  for (std::size_t n = 0; n + 1 < good.size(); ++n) {
    const Error error = error_of([&] { parse_manifest(good.substr(0, n), "m.json"); });
    ASSERT_EQ(error.kind(), ErrorKind::data);
  }
  EXPECT_EQ(error_of([] { parse_manifest(std::string(1000000, '['), "m.json"); }).message(),
            "'m.json': not a manifest: nested more than 5 levels deep");
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random() & 255);
    try {
      parse_manifest(bad, "m.json");
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::data);
    }
  }
}

// covers: loading D10
TEST(Manifest, FilesRoundTripAndReplace) {
  const TempDir dir;
  write_manifest(Manifest{}, dir / "m.json");
  write_manifest(example(), dir / "m.json");
  EXPECT_EQ(read_manifest(dir / "m.json"), example());
  EXPECT_EQ(dir.count(), 1U);
  const Error missing = error_of([&] { read_manifest(dir / "none.json"); });
  EXPECT_EQ(missing.kind(), ErrorKind::system);
  EXPECT_EQ(missing.facts().os_error, ENOENT);
}

TEST(Manifest, NothingIsLeftWhenTheDiskIsFull) {
  const TempDir dir;
  write_manifest(Manifest{}, dir / "old.json");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Error fresh = error_of([&] { write_manifest(example(), dir / "m.json"); });
  const Error replacing = error_of([&] { write_manifest(example(), dir / "old.json"); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(fresh.kind(), ErrorKind::system);
  EXPECT_EQ(fresh.facts().os_error, EFBIG);
  EXPECT_EQ(replacing.kind(), ErrorKind::system);
  EXPECT_EQ(dir.count(), 1U);
  EXPECT_EQ(read_manifest(dir / "old.json"), Manifest{});
}

TEST(Manifest, ErrorsAndStopsOfTheReaderPassThrough) {
  const SourceReader failing = [](const Box&, std::span<std::byte>) { throw data_error("'x.npy': is truncated"); };
  EXPECT_EQ(error_of([&] { digest_array("a", dtypes::kInt8, {100}, failing, ThreadPool(2)); }).message(),
            "'x.npy': is truncated");
  CancelToken cancel;
  cancel.request();
  const SourceReader zeros = [](const Box&, std::span<std::byte> dst) { std::memset(dst.data(), 0, dst.size()); };
  EXPECT_THROW(digest_array("a", dtypes::kInt8, {100}, zeros, ThreadPool(2), nullptr, &cancel), Interrupted);
}

// covers: loading E19
TEST(Manifest, DigestingTakesWindowsOnly) {
  std::atomic<std::int64_t> largest{0};
  const SourceReader zeros = [&](const Box&, std::span<std::byte> dst) {
    std::int64_t seen = largest.load();
    while (seen < std::ssize(dst) && !largest.compare_exchange_weak(seen, std::ssize(dst))) {
    }
    std::memset(dst.data(), 0, dst.size());
  };
  ProgressMeter progress({}, "digest", 0);
  digest_array("a", dtypes::kUInt8, {3, 100 << 20}, zeros, ThreadPool(2), &progress);
  EXPECT_LE(largest.load(), 8 << 20);
  EXPECT_EQ(progress.done_bytes(), std::int64_t{3} * (100 << 20));
}

}  // namespace
}  // namespace loadstone
