#include "loadstone/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/write.h"
#include "tests/fakes/failing_source.h"

namespace loadstone {
namespace {

namespace fs = std::filesystem;

/// A directory that is gone after the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "loadstone_test_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Host memory, of which there is none left for the nth buffer.
class FailingBuffers final : public BufferProvider {
 public:
  explicit FailingBuffers(int nth) : nth_(nth) {}
  View buffer(const Plan& plan, std::int32_t slot) override {
    if (++asked_ == nth_) throw os_error(ENOMEM, "buffer", "cannot allocate");
    return inner_->buffer(plan, slot);
  }

 private:
  std::unique_ptr<BufferProvider> inner_ = host_buffers();
  int nth_, asked_ = 0;
};

std::vector<std::byte> made_up(const Shape& shape, DType dtype, std::uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(dtype.nbytes(num_elems(shape))));
  made_up_elements(dtype, seed, 0, num_elems(shape), bytes.data());
  return bytes;
}

std::string write_set(const TemporaryDirectory& dir, const Shape& shape, std::int64_t shards) {
  WriteOptions options;
  options.shape = shape;
  options.shards = shards;
  options.uneven = true;
  options.seed = 5;
  write_dataset(dir / "set", options, ThreadPool(2));
  return dir / "set";
}

Sharding over_cpus(std::vector<std::string> names, Dims sizes, std::string_view spec, Uneven uneven) {
  return Sharding(Mesh::of_cpus(std::move(names), std::move(sizes)), parse_spec(spec), uneven);
}

LoadResult load_over(const Catalog& catalog, const Sharding& sharding, VerifyMode mode,
                     const Manifest* manifest = nullptr) {
  LoadOptions options;
  options.threads = 2;
  options.verify = mode;
  options.manifest = manifest;
  return load(catalog, {{0, sharding}}, options);
}

// covers: sharding R1, loading E19
TEST(Load, PlacesTwoShardsOnTwoDevicesAndProvesThem) {
  const TemporaryDirectory dir;
  const Catalog catalog = open({write_set(dir, {7, 4}, 2)});
  const LoadResult result = load_over(catalog, over_cpus({"x"}, {2}, "x", Uneven::ceil), VerifyMode::full);

  const std::vector<std::byte> expected = made_up({7, 4}, dtypes::kFloat32, 5);
  ASSERT_EQ(result.placement.shards.size(), 2U);
  EXPECT_EQ(result.placement.shards[0].shard.box, (Box{{0, 0}, {4, 4}}));
  EXPECT_EQ(result.placement.shards[1].shard.box, (Box{{4, 0}, {7, 4}}));
  EXPECT_EQ(std::memcmp(result.placement.shards[0].data.data(), expected.data(), 64), 0);
  EXPECT_EQ(std::memcmp(result.placement.shards[1].data.data(), expected.data() + 64, 48), 0);
  ASSERT_TRUE(result.verdict.has_value());
  EXPECT_TRUE(result.verdict->ok()) << to_string(*result.verdict);
  EXPECT_EQ(result.placement.stats.bytes_read, 7 * 4 * 4);
}

// covers: sharding R2
TEST(Load, PutsEverythingOnOneDeviceWithoutASharding) {
  const TemporaryDirectory dir;
  const Catalog catalog = open({write_set(dir, {9, 3}, 3)});
  const LoadResult result = load_over(catalog, Sharding::single(), VerifyMode::none);
  const View whole = assemble(result.placement, 0);
  const std::vector<std::byte> expected = made_up({9, 3}, dtypes::kFloat32, 5);
  ASSERT_EQ(whole.nbytes(), static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(std::memcmp(whole.data(), expected.data(), expected.size()), 0);
  EXPECT_FALSE(result.verdict.has_value());
}

// covers: loading D10
TEST(Load, PassesAManifestOfTheSameArrayInOtherFilesAndRefusesOtherBytes) {
  const TemporaryDirectory dir;
  const std::string first = write_set(dir, {40, 8}, 3);
  const Manifest manifest = digest(open({first}));
  WriteOptions other;
  other.shape = {40, 8};
  other.shards = 5;
  other.seed = 5;
  write_dataset(dir / "other", other, ThreadPool(1));
  const Sharding sharding = over_cpus({"x", "y"}, {2, 2}, "x,y", Uneven::error);
  EXPECT_TRUE(load_over(open({dir / "other"}), sharding, VerifyMode::full, &manifest).verdict->ok());

  other.seed = 6;
  write_dataset(dir / "changed", other, ThreadPool(1));
  const LoadResult changed = load_over(open({dir / "changed"}), sharding, VerifyMode::full, &manifest);
  EXPECT_FALSE(changed.verdict->ok());
  EXPECT_FALSE(changed.verdict->accusations.empty());
}

// covers: sharding R5, faults F1
TEST(Load, VerifyFindsExchangedBuffersAfterALoad) {
  const TemporaryDirectory dir;
  const Catalog catalog = open({write_set(dir, {8, 8}, 3)});
  LoadResult result = load_over(catalog, over_cpus({"x"}, {4}, "-,x", Uneven::error), VerifyMode::none);
  EXPECT_TRUE(verify(result.placement, catalog).ok());
  std::swap(result.placement.shards[1].data, result.placement.shards[2].data);
  const Verdict verdict = verify(result.placement, catalog);
  EXPECT_FALSE(verdict.ok());
  const std::string text = to_string(verdict);
  EXPECT_NE(text.find("2:4"), std::string::npos) << text;
  EXPECT_NE(text.find("4:6"), std::string::npos) << text;
}

// covers: faults F13
TEST(Load, AnotherShapeOrDtypeThanTheCatalogSaysIsAccusedAtL0) {
  const TemporaryDirectory dir;
  const Catalog catalog = open({write_set(dir, {8, 4}, 2)});
  const LoadResult loaded = load_over(catalog, over_cpus({"x"}, {2}, "x", Uneven::error), VerifyMode::none);
  WriteOptions shape;
  shape.shape = {4, 8};
  write_dataset(dir / "shape", shape, ThreadPool(1));
  WriteOptions dtype;
  dtype.shape = {8, 4};
  dtype.dtype = dtypes::kInt32;
  write_dataset(dir / "dtype", dtype, ThreadPool(1));
  const auto check = [&](const std::string& other, const std::string& detail) {
    DiscoverOptions named;
    named.name = catalog.arrays[0].name;
    const Verdict verdict = verify(loaded.placement, open({dir / other}, named));
    EXPECT_FALSE(verdict.ok());
    ASSERT_EQ(verdict.accusations.size(), 2U) << "every device holds it";
    for (const Accusation& accusation : verdict.accusations) {
      EXPECT_EQ(accusation.level, Level::structure);
      EXPECT_EQ(accusation.holds, Accusation::Holds::other_structure);
      EXPECT_EQ(accusation.detail, detail);
    }
  };
  check("shape", "shape: expected (4, 8), found (8, 4)");
  check("dtype", "dtype: expected int32, found float32");
}

// covers: loading E1, E8
TEST(Load, EveryOpenReadAndBufferMayFailAndNothingStaysOpen) {
  const TemporaryDirectory dir;
  const std::string set = write_set(dir, {12, 4}, 3);
  const Sharding sharding = over_cpus({"x", "y"}, {2, 2}, "x,y", Uneven::ceil);
  const Manifest manifest = digest(open({set}));
  const auto run = [&](fakes::FailingSources& sources, BufferProvider* buffers) {
    DiscoverOptions discover;
    discover.sources = &sources;
    const Catalog catalog = open({set}, discover, 2);
    LoadOptions options;
    options.threads = 2;
    options.verify = VerifyMode::full;
    options.sources = &sources;
    options.buffers = buffers;
    const LoadResult loaded = load(catalog, {{0, sharding}}, options);
    CheckOptions check;
    check.threads = 2;
    check.sources = &sources;
    EXPECT_TRUE(loaded.verdict->ok() && verify(loaded.placement, catalog, check).ok());
    EXPECT_EQ(digest(catalog, {}, 2, {}, nullptr, &sources), manifest);
  };
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  fakes::FailingSources counted(pread_sources());
  run(counted, nullptr);
  ASSERT_GT(counted.opens(), 3);
  ASSERT_GT(counted.reads(), 3);
  const auto before = descriptors();
  for (std::int64_t n = 1; n <= std::max(counted.opens(), counted.reads()); ++n) {
    for (const bool open_fails : {true, false}) {
      if (n > (open_fails ? counted.opens() : counted.reads())) continue;
      fakes::FailingSources sources(pread_sources());
      open_fails ? sources.fail_open(n, EIO) : sources.fail_read(n, EIO);
      try {
        run(sources, nullptr);
        ADD_FAILURE() << (open_fails ? "open " : "read ") << n << " failed without an error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::system) << error.what();
        EXPECT_EQ(error.facts().os_error, EIO) << error.what();
        EXPECT_NE(error.message().find("shard_"), std::string::npos) << error.what();
      }
      EXPECT_EQ(descriptors(), before) << (open_fails ? "open " : "read ") << n;
    }
  }
  for (int n = 1; n <= 4; ++n) {
    FailingBuffers buffers(n);
    fakes::FailingSources sources(pread_sources());
    EXPECT_THROW(run(sources, &buffers), Error) << n;
    EXPECT_EQ(descriptors(), before) << n;
  }
}

TEST(Load, RefusesAManifestWithoutTheArrayBeforeAnythingIsHandedOut) {
  const TemporaryDirectory dir;
  const Catalog catalog = open({write_set(dir, {4, 2}, 1)});
  const Manifest empty;
  EXPECT_THROW(load_over(catalog, Sharding::single(), VerifyMode::full, &empty), Error);
}

/// One .npy file with these header fields and payload.
void write_npy(const std::string& path, const std::string& descr, bool fortran, const std::string& shape,
               const std::vector<std::byte>& payload) {
  std::string header =
      cat("{'descr': '", descr, "', 'fortran_order': ", fortran ? "True" : "False", ", 'shape': ", shape, ", }");
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size() & 255U)
      << static_cast<char>(header.size() >> 8U) << header;
  out.write(reinterpret_cast<const char*>(payload.data()), static_cast<std::streamsize>(payload.size()));
}

TEST(SourceReader, ReadsBoxesOfFortranAndBigEndianFiles) {
  const TemporaryDirectory dir;
  const Shape shape{5, 3, 4};
  std::vector<std::byte> fortran;
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (std::uint32_t j = 0; j < 3; ++j) {
      for (std::uint32_t i = 0; i < 5; ++i) {
        const std::uint32_t value = i * 12 + j * 4 + k;
        for (int byte = 3; byte >= 0; --byte) fortran.push_back(static_cast<std::byte>(value >> (8 * byte)));
      }
    }
  }
  write_npy(dir / "a.npy", ">u4", true, "(5, 3, 4)", fortran);
  const Catalog catalog = open({dir / "a.npy"});
  const SourceReader read = source_reader(catalog, 0);
  const Box box{{1, 0, 2}, {4, 2, 4}};
  std::vector<std::uint32_t> out(static_cast<std::size_t>(box.num_elems()));
  read(box, std::as_writable_bytes(std::span(out)));
  std::size_t at = 0;
  for (std::uint32_t i = 1; i < 4; ++i) {
    for (std::uint32_t j = 0; j < 2; ++j) {
      for (std::uint32_t k = 2; k < 4; ++k) EXPECT_EQ(out[at++], i * 12 + j * 4 + k);
    }
  }
}

}  // namespace
}  // namespace loadstone
