#include "loadstone/format/discover.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <limits>

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

std::vector<std::string> names_in(const Catalog& catalog) {
  std::vector<std::string> out;
  for (std::int64_t f = 0; f < catalog.files.size(); ++f) {
    const std::string path = catalog.files.path(f);
    out.push_back(path.substr(path.rfind('/') + 1));
  }
  return out;
}

bool mentions(const std::vector<std::string>& texts, std::string_view word) {
  for (const std::string& text : texts) {
    if (text.find(word) != std::string::npos) return true;
  }
  return false;
}

// covers: loading D1, D2
TEST(Discover, NothingIsNeverASuccess) {
  const TempFolder dir;
  const Error missing = refusal({dir.at("none")});
  expect_error(missing, ErrorKind::system, {dir.at("none"), "No such file"});
  EXPECT_EQ(missing.facts().os_error, ENOENT);
  EXPECT_EQ(missing.facts().file, dir.at("none"));
  const Error empty = refusal({dir.path()});
  expect_error(empty, ErrorKind::system, {dir.path(), "no match", "empty"});
  dir.put("s0.npy", npy_rows(1));
  const Error no_match = refusal({dir.at("nothing-*.npy")});
  expect_error(no_match, ErrorKind::system, {dir.path(), "nothing-*.npy", "no file matches"});
  EXPECT_EQ(no_match.facts().os_error, ENOENT);
  dir.put("texts/README.txt", "hello");
  expect_error(refusal({dir.at("texts")}), ErrorKind::system, {"no match", "README.txt"});
  EXPECT_EQ(refusal({}).kind(), ErrorKind::usage);
  EXPECT_EQ(refusal({""}).kind(), ErrorKind::usage);
  EXPECT_EQ(refusal({std::string("a\0b", 3)}).kind(), ErrorKind::usage);
}

// covers: loading D7, D9, D12
TEST(Discover, StacksUnevenShards) {
  const TempFolder dir;
  const std::vector<std::int64_t> rows{3, 0, 4, 3};
  for (std::size_t f = 0; f < rows.size(); ++f) dir.put(cat("shard_", f, ".npy"), npy_rows(rows[f], 5));
  const Catalog catalog = find({dir.path()});
  const ArrayEntry& array = catalog.array();
  EXPECT_EQ(array.shape, (Shape{10, 5}));
  EXPECT_EQ(array.dtype, dtypes::kFloat32);
  EXPECT_EQ(array.format, "npy");
  EXPECT_EQ(array.name, "shard");
  EXPECT_EQ(array.tiling.row_bounds(), (std::vector<std::int64_t>{0, 3, 3, 7, 10}));
  EXPECT_EQ(array.tiling.piece(2, array.dtype).offset_bytes, 128);
  EXPECT_EQ(catalog.files.stamp(0).size_bytes, 128 + 60);
  const std::string text = to_string(catalog);
  for (const char* word :
       {"npy", "4 files", "rows 3, 0, 4, 3", "total 10", "(5,)", "float32", "200 bytes", "C order"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in\n" << text;
  }
  EXPECT_EQ(find({dir.at("*.npy")}).arrays, catalog.arrays);
}

// covers: loading D4, D5, E7
TEST(Discover, FilesThatDifferFromTheFirstAreNamedTogether) {
  const TempFolder dir;
  dir.put("s0.npy", npy_rows(3));
  dir.put("s1.npy", npy_file("<f8", {3, 2}, 8));
  dir.put("s2.npy", npy_rows(3, 4));
  dir.put("s3.npy", npy_file("<f4", {3}, 4));
  dir.put("s4.npy", npy_rows(1));
  expect_error(refusal({dir.path()}), ErrorKind::data,
               {"s1.npy': dtype", "float32", "float64", "s2.npy': shape", "(2,)", "(4,)",
                "s3.npy': number of dimensions", "3 files"});
  for (int f = 5; f < 12; ++f) dir.put(cat("s", f, ".npy"), npy_file("<i8", {1, 2}, 8));
  const Error many = refusal({dir.path()});
  expect_error(many, ErrorKind::data, {"s5.npy", "s6.npy", "and 5 more", "10 files"});
  EXPECT_EQ(many.message().find("s8.npy"), std::string::npos);
  EXPECT_EQ(many.facts().expected, "float32");
  EXPECT_EQ(many.facts().found, "float64");
}

// covers: loading E7
TEST(Discover, AllBadFilesAreNamedInOneRun) {
  const TempFolder dir;
  for (int f = 0; f < 20; ++f) dir.put(cat("s", f, ".npy"), f % 2 == 0 ? npy_rows(2) : npy_rows(2).substr(0, 140));
  expect_error(refusal({dir.path()}), ErrorKind::data,
               {"s1.npy': truncated", "s3.npy", "s5.npy", "s7.npy", "s9.npy", "and 5 more", "10 files"});
}

// covers: loading D6
TEST(Discover, AScalarStandsAlone) {
  const TempFolder dir;
  dir.put("a.npy", npy_file("<f8", {}, 8));
  const Catalog catalog = find({dir.at("a.npy")});
  EXPECT_EQ(catalog.array().shape, Shape{});
  EXPECT_TRUE(catalog.array().tiling.scalar());
  EXPECT_EQ(catalog.array().tiling.piece(0, dtypes::kFloat64).stored_bytes, 8);
  EXPECT_EQ(catalog.array().name, "a");
  dir.put("b.npy", npy_file("<f8", {}, 8));
  expect_error(refusal({dir.path()}), ErrorKind::data, {"a.npy", "b.npy", "0-d", "axis 0"});
  dir.put("b.npy", npy_file("<f8", {2}, 8));
  const Error mixed = refusal({dir.path()});
  expect_error(mixed, ErrorKind::data, {"a.npy': is a 0-d"});
  EXPECT_EQ(mixed.message().find("b.npy'"), std::string::npos);
}

// covers: loading D7
TEST(Discover, TheTotalIsCheckedForOverflow) {
  const TempFolder dir;
  for (int f = 0; f < 2; ++f) dir.put(cat("s", f, ".npy"), npy_file("|u1", {6000000000000000000, 0}, 1));
  EXPECT_EQ(refusal({dir.path()}).kind(), ErrorKind::data);
}

// covers: loading N5
TEST(Discover, ByteOrderAndElementOrderMayDifferFromFileToFile) {
  const TempFolder dir;
  dir.put("s0.npy", npy_file("<i4", {2, 3}, 4));
  dir.put("s1.npy", npy_file(">i4", {2, 3}, 4, true));
  const Catalog catalog = find({dir.path()});
  const Piece second = catalog.array().tiling.piece(1, dtypes::kInt32);
  EXPECT_EQ(second.byte_order, ByteOrder::big);
  EXPECT_EQ(second.order, ElementOrder::f);
  EXPECT_EQ(catalog.array().tiling.piece(0, dtypes::kInt32).order, ElementOrder::c);
}

// covers: loading D8, D17, D18, F2
TEST(Discover, OpensEachFileOnceAndReadsHeadersOnly) {
  std::int64_t small = 0;
  for (const std::int64_t rows : {std::int64_t{100}, std::int64_t{100000}}) {
    const TempFolder dir;
    for (int f = 0; f < 300; ++f) {
      const std::string path = dir.put(cat("s", f, ".npy"), npy_rows(rows).substr(0, 128));
      ASSERT_EQ(::truncate(path.c_str(), 128 + rows * 8), 0);
    }
    CountingSources sources;
    DiscoverOptions options;
    options.sources = &sources;
    const Catalog catalog = find({dir.path()}, options);
    EXPECT_EQ(catalog.array().shape, (Shape{300 * rows, 2}));
    EXPECT_EQ(sources.opens, 300);
    EXPECT_EQ(sources.reads, 300);
    EXPECT_EQ(catalog.counters.opens, sources.opens);
    EXPECT_EQ(catalog.counters.bytes_read, sources.bytes);
    EXPECT_EQ(catalog.counters.read_calls, sources.reads);
    EXPECT_LE(sources.bytes, 300 * 256);
    if (small == 0) small = sources.bytes;
    EXPECT_EQ(sources.bytes, small);
  }
}

// covers: loading D19
TEST(Discover, NineHundredFilesNeedFewDescriptors) {
  const TempFolder dir;
  for (int f = 0; f < 900; ++f) dir.put(cat("s", f, ".npy"), npy_rows(1));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 64;
  ::setrlimit(RLIMIT_NOFILE, &few);
  Catalog catalog;
  EXPECT_NO_THROW(catalog = discover({dir.path()}, {}, ThreadPool(16)));
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(catalog.array().shape, (Shape{900, 2}));
}

// covers: loading D22
TEST(Discover, AFileCostsBytesNotObjects) {
  const TempFolder dir;
  constexpr std::int64_t kFiles = 1000;
  for (int f = 0; f < kFiles; ++f) dir.put(cat("s", f, ".npy"), npy_rows(1));
  const std::int64_t name = static_cast<std::int64_t>(dir.at("s999.npy").size());
  find({dir.path()});
  const auto before = static_cast<std::int64_t>(mallinfo2().uordblks);
  const Catalog catalog = find({dir.path()});
  const auto after = static_cast<std::int64_t>(mallinfo2().uordblks);
  EXPECT_EQ(catalog.files.size(), kFiles);
  EXPECT_LT(after - before, kFiles * (2 * (24 + 29 + name)));  // twice: vectors grow by doubling
}

// covers: loading D14
TEST(Discover, LeftoversAreLeftOutAndMentioned) {
  const TempFolder dir;
  dir.put("s0.npy", npy_rows(2));
  dir.put("s1.npy", npy_rows(2));
  for (const char* name : {"._s0.npy", ".DS_Store", "s2.npy.tmp", "s2.npy.partial", "s3.npy~", "README.txt",
                           "notes.json", "sub/s9.npy", "_SUCCESS"}) {
    dir.put(name, name == std::string_view("_SUCCESS") ? "" : "x");
  }
  dir.put(".loadstone-write.json", "{}");
  const Catalog catalog = find({dir.path()});
  EXPECT_EQ(names_in(catalog), (std::vector<std::string>{"s0.npy", "s1.npy"}));
  for (const char* name : {"._s0.npy", ".DS_Store", "s2.npy.tmp", "s2.npy.partial", "s3.npy~", "README.txt",
                           "notes.json", "/sub'", "_SUCCESS"}) {
    EXPECT_TRUE(mentions(catalog.left_out, name)) << name;
  }
  EXPECT_EQ(catalog.left_out.size(), 9U);
  EXPECT_EQ(names_in(find({dir.at("*")})), names_in(catalog));
  EXPECT_EQ(names_in(find({dir.at("s*.npy")})), names_in(catalog));
  EXPECT_NE(to_string(catalog).find("s2.npy.tmp"), std::string::npos);
}

// covers: loading D14, F3
TEST(Discover, AStrayInAScanIsAnError) {
  const TempFolder dir;
  for (const char* name : {"shard_0000.npy", "shard_0001.npy", "shard_0000_backup.npy"}) dir.put(name, npy_rows(1));
  expect_error(refusal({dir.path()}), ErrorKind::data, {"shard_0000_backup.npy", "stray"});
  expect_error(refusal({dir.at("shard_*.npy")}), ErrorKind::data, {"shard_0000_backup.npy", "stray"});
}

// covers: loading D14
TEST(Discover, AFileWithTheExtensionAndOtherContentIsAnError) {
  const TempFolder dir;
  dir.put("s0.npy", npy_rows(2));
  const std::string path = dir.at("s1.npy");
  for (const auto& [content, word] :
       std::vector<std::pair<std::string, std::string>>{{"", "0 bytes"},
                                                        {"version https://git-lfs.github.com/spec/v1\n", "Git LFS"},
                                                        {"\x89HDF\r\n\x1a\n", "HDF5"},
                                                        {std::string("PK\x03\x04", 4), "zip"},
                                                        {"garbage", "bad magic"}}) {
    dir.put("s1.npy", content);
    expect_error(refusal({dir.path()}), ErrorKind::data, {"s1.npy", word});
    expect_error(refusal({dir.at("*.npy")}), ErrorKind::data, {"s1.npy", word});
    expect_error(refusal({dir.at("s0.npy"), path}), ErrorKind::data, {"s1.npy", word});
  }
  std::filesystem::remove(dir.at("s0.npy"));
  expect_error(refusal({dir.path()}), ErrorKind::data, {"s1.npy", "bad magic"});
}

// covers: loading D14
TEST(Discover, OddKindsOfFilesAreNamedAndNeverOpened) {
  const TempFolder dir;
  dir.put("s0.npy", npy_rows(2));
  const std::string odd = dir.at("s1.npy");
  const auto check = [&](const char* kind) {
    CountingSources sources;
    DiscoverOptions options;
    options.sources = &sources;
    for (const auto& paths :
         std::vector<std::vector<std::string>>{{dir.path()}, {dir.at("*.npy")}, {dir.at("s0.npy"), odd}}) {
      if (paths.size() == 2 && kind == std::string_view("a directory")) continue;
      expect_error(refusal(paths, options), ErrorKind::data, {"s1.npy", kind, "not a regular file"});
    }
    EXPECT_LE(sources.opens, 3);
  };
  std::filesystem::create_directory(odd);
  check("a directory");
  std::filesystem::remove(odd);
  ASSERT_EQ(::mkfifo(odd.c_str(), 0600), 0);
  check("a FIFO");
  std::filesystem::remove(odd);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(odd.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, odd.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  check("a socket");
  ::close(fd);
  std::filesystem::remove(odd);
  std::filesystem::create_symlink("/dev/null", odd);
  check("a character device");
}

// covers: loading D14
TEST(Discover, LinksThatLeadNowhereAreErrorsWithTheReason) {
  const TempFolder dir;
  dir.put("s0.npy", npy_rows(2));
  std::filesystem::create_symlink("s1.npy", dir.at("s1.npy"));
  const Error loop = refusal({dir.path()});
  expect_error(loop, ErrorKind::system, {"s1.npy", "symbolic links"});
  EXPECT_EQ(loop.facts().os_error, ELOOP);
  std::filesystem::remove(dir.at("s1.npy"));
  std::filesystem::create_symlink("nowhere", dir.at("s1.npy"));
  expect_error(refusal({dir.at("s1.npy")}), ErrorKind::system, {"s1.npy", "'nowhere' is broken"});
}

// covers: loading D14
TEST(Discover, AnUnreadableFileIsAnErrorWithTheReason) {
  const TempFolder dir;
  dir.put("s0.npy", npy_rows(2));
  dir.put("s1.npy", npy_rows(2));
  CountingSources sources;
  sources.refused = "s1.npy";
  DiscoverOptions options;
  options.sources = &sources;
  const Error error = refusal({dir.path()}, options);
  expect_error(error, ErrorKind::system, {"s1.npy", "Permission denied"});
  EXPECT_EQ(error.facts().os_error, EACCES);
}

// covers: loading D14
TEST(Discover, LinksSortByTheirOwnNames) {
  const TempFolder dir;
  dir.put("blobs/b", npy_rows(1));
  dir.put("blobs/a", npy_rows(2));
  std::filesystem::create_directory(dir.at("snap"));
  std::filesystem::create_symlink("../blobs/b", dir.at("snap/s0.npy"));
  std::filesystem::create_symlink("../blobs/a", dir.at("snap/s1.npy"));
  const Catalog catalog = find({dir.at("snap")});
  EXPECT_EQ(names_in(catalog), (std::vector<std::string>{"s0.npy", "s1.npy"}));
  EXPECT_EQ(catalog.array().tiling.rows_of(0), 1);
}

// covers: loading D14, D20
TEST(Discover, NamesAreDataOnceFound) {
  const TempFolder dir;
  const std::vector<std::string> names{"0 with space.npy",         "1 'quote'.npy",   "2 [x] {y} *?.npy",
                                       "3 d\xc3\xa9j\xc3\xa0.npy", "4 new\nline.npy", "5 \xff\xfe.npy"};
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(dir.put(name, npy_rows(1)));
  const Catalog catalog = find({dir.path()});
  EXPECT_EQ(names_in(catalog), names);
  EXPECT_EQ(names_in(find(paths)), names);
  EXPECT_EQ(names_in(find({dir.at("5 *")})), (std::vector<std::string>{names[5]}));
  EXPECT_EQ(names_in(find({paths[2]})), (std::vector<std::string>{names[2]}));
  dir.put("6 \x1b\xff.npy", "bad");
  const Error error = refusal({dir.at("6 \x1b\xff.npy")});
  expect_error(error, ErrorKind::data, {"6 \\x1b\\xff.npy"});
  EXPECT_EQ(error.facts().file, dir.at("6 \x1b\xff.npy"));
}

// covers: loading D14
TEST(Discover, AnExistingNameIsLiteralAndAFolderWithMagicIsFound) {
  const TempFolder dir;
  dir.put("run[1]/s0.npy", npy_rows(3));
  const Catalog catalog = find({dir.at("run[1]/*.npy")});
  EXPECT_EQ(catalog.array().shape[0], 3);
  EXPECT_TRUE(mentions(catalog.notes, "run[1]"));
  EXPECT_EQ(find({dir.at("run[1]")}).array().shape[0], 3);
  dir.put("run1/s0.npy", npy_rows(4));
  EXPECT_EQ(find({dir.at("run[1]/*.npy")}).array().shape[0], 4);
  EXPECT_EQ(find({dir.at("run[1]")}).array().shape[0], 3);
  dir.put("s*.npy", npy_rows(5));
  dir.put("s1.npy", npy_rows(6));
  EXPECT_EQ(find({dir.at("s*.npy")}).array().shape[0], 5);
}

// covers: loading D21
TEST(Discover, TheFormatIsInTheContent) {
  const TempFolder dir;
  dir.put("s0.dat", npy_rows(2));
  EXPECT_EQ(find({dir.at("s0.dat")}).array().format, "npy");
  dir.put("a/s0.npy", npy_rows(2));
  const std::string safetensors("\x02\0\0\0\0\0\0\0{}", 10);
  dir.put("a/s1.safetensors", safetensors);
  for (const auto& paths : std::vector<std::vector<std::string>>{
           {dir.at("a")}, {dir.at("a/*")}, {dir.at("a/s*")}, {dir.at("a/s0.npy"), dir.at("a/s1.safetensors")}}) {
    expect_error(refusal(paths), ErrorKind::data,
                 {"s1.safetensors", "s0.npy", "safetensors", "npy", "two formats in one set"});
  }
  DiscoverOptions npy;
  npy.format = "npy";
  const Catalog catalog = find({dir.at("a")}, npy);
  EXPECT_EQ(names_in(catalog), (std::vector<std::string>{"s0.npy"}));
  EXPECT_TRUE(mentions(catalog.left_out, "s1.safetensors"));
  expect_error(refusal({dir.at("a/s1.safetensors")}, npy), ErrorKind::data, {"s1.safetensors", "npy", "safetensors"});
}

// covers: loading D21
TEST(Discover, FormatsOfOtherBuildsAreNamed) {
  const TempFolder dir;
  dir.put("store/.zarray", "{}");
  expect_error(refusal({dir.at("store")}), ErrorKind::data, {"store", "zarr"});
  dir.put("stores/s0.zarr/zarr.json", "{}");
  expect_error(refusal({dir.at("stores")}), ErrorKind::data, {"s0.zarr", "zarr"});
  DiscoverOptions unknown;
  unknown.format = "numpy";
  expect_error(refusal({dir.at("store")}, unknown), ErrorKind::usage, {"'numpy'", "npy"});
}

// covers: loading D3, D15, F4
TEST(Discover, CompletenessIsCheckedOrSaidNotToBe) {
  const TempFolder dir;
  for (int f = 0; f < 3; ++f) dir.put(cat("s", f, ".npy"), npy_rows(2));
  const Catalog plain = find({dir.path()});
  EXPECT_FALSE(plain.completeness_checked);
  EXPECT_TRUE(mentions(plain.notes, "completeness not checked"));
  DiscoverOptions expected;
  expected.expect_files = 3;
  expected.expect_rows = 6;
  EXPECT_TRUE(find({dir.path()}, expected).completeness_checked);
  expected.expect_files = 4;
  const Error files = refusal({dir.path()}, expected);
  expect_error(files, ErrorKind::data, {"expected 4 files, found 3"});
  EXPECT_EQ(files.facts().expected, "4 files");
  expected.expect_files = 3;
  expected.expect_rows = 7;
  expect_error(refusal({dir.path()}, expected), ErrorKind::data, {"expected 7 rows, found 6"});
  std::filesystem::remove(dir.at("s1.npy"));
  expect_error(refusal({dir.path()}), ErrorKind::data, {"s1.npy", "hole"});
  DiscoverOptions gaps;
  gaps.allow_gaps = true;
  EXPECT_TRUE(mentions(find({dir.path()}, gaps).notes, "'s1.npy'"));
  dir.put("n/p-0-of-2.npy", npy_rows(1));
  dir.put("n/p-1-of-2.npy", npy_rows(1));
  EXPECT_TRUE(find({dir.at("n")}).completeness_checked);
}

// covers: loading D10, D12
TEST(Discover, AFileListKeepsItsOrder) {
  const TempFolder dir;
  for (const char* name : {"d/c.npy", "d/a.npy", "d/#b.npy", "d/x y.npy"}) dir.put(name, npy_rows(1));
  DiscoverOptions options;
  options.files_from =
      dir.put("d/list.txt", cat("\xEF\xBB\xBF", "c.npy\r\n\n#b.npy\n", dir.at("d/a.npy"), "\nx y.npy"));
  EXPECT_EQ(names_in(find({}, options)), (std::vector<std::string>{"c.npy", "#b.npy", "a.npy", "x y.npy"}));
  EXPECT_EQ(refusal({dir.path()}, options).kind(), ErrorKind::usage);
  const auto list = [&](const std::string& text) {
    options.files_from = dir.put("d/list.txt", text);
    return refusal({}, options);
  };
  expect_error(list("c.npy\nc.npy\n"), ErrorKind::usage, {"c.npy", "listed twice"});
  expect_error(list(std::string("c.npy\0", 6)), ErrorKind::data, {"list.txt", "NUL"});
  expect_error(list("\n\r\n"), ErrorKind::data, {"list.txt", "lists no file"});
  expect_error(list("c.npy\nnone.npy\n"), ErrorKind::system, {"d/none.npy", "No such file"});
  expect_error(list("*.npy\n"), ErrorKind::system, {"d/*.npy", "No such file"});
  expect_error(list("../d\n"), ErrorKind::data, {"../d", "a directory"});
  options.files_from = dir.at("none.txt");
  expect_error(refusal({}, options), ErrorKind::system, {"none.txt"});
  options.files_from = dir.at("d");
  expect_error(refusal({}, options), ErrorKind::data, {"not a regular file"});
  ASSERT_EQ(::mkfifo(dir.at("fifo").c_str(), 0600), 0);
  options.files_from = dir.at("fifo");
  expect_error(refusal({}, options), ErrorKind::data, {"not a regular file"});
}

// covers: loading D12
TEST(Discover, AShellExpandedListIsRefused) {
  const TempFolder dir;
  for (int f = 0; f < 12; ++f) dir.put(cat("shard_", f, ".npy"), npy_rows(1));
  std::vector<std::string> paths;
  for (int f = 0; f < 12; ++f) paths.push_back(dir.at(cat("shard_", f, ".npy")));
  std::sort(paths.begin(), paths.end());
  expect_error(refusal(paths), ErrorKind::usage, {"shard_2.npy", "shard_11.npy", "--keep-order"});
  DiscoverOptions keep;
  keep.keep_order = true;
  EXPECT_EQ(find(paths, keep).files.path(2), dir.at("shard_10.npy"));
  EXPECT_EQ(find({dir.at("shard_*")}).files.path(10), dir.at("shard_10.npy"));
}

TEST(Discover, SeveralFoldersStackInTheOrderGiven) {
  const TempFolder dir;
  for (const char* name : {"b/s0.npy", "b/s1.npy", "a/s0.npy"}) dir.put(name, npy_rows(1));
  const Catalog catalog = find({dir.at("b"), dir.at("a")});
  EXPECT_EQ(catalog.files.path(0), dir.at("b/s0.npy"));
  EXPECT_EQ(catalog.files.path(2), dir.at("a/s0.npy"));
  expect_error(refusal({dir.at("b"), dir.at("b/s0.npy")}), ErrorKind::usage, {"b/s0.npy", "listed twice"});
}

TEST(Discover, ALostDtypeIsNamedForTheWholeSet) {
  const TempFolder dir;
  for (int f = 0; f < 2; ++f) dir.put(cat("s", f, ".npy"), npy_file("<V2", {3, 2}, 2));
  expect_error(refusal({dir.path()}), ErrorKind::data, {"s0.npy", "s1.npy", "--dtype bfloat16"});
  DiscoverOptions options;
  options.hints.dtype = parse_dtype("bfloat16");
  const Catalog catalog = find({dir.path()}, options);
  EXPECT_EQ(catalog.array().dtype, dtypes::kBFloat16);
  EXPECT_TRUE(mentions(catalog.notes, "in 2 files"));
}

TEST(Discover, TheNameIsTheStemTheFolderOrTheFile) {
  const TempFolder dir;
  dir.put("set/a.npy", npy_rows(1));
  EXPECT_EQ(find({dir.at("set/a.npy")}).array().name, "a");
  EXPECT_EQ(find({dir.at("set")}).array().name, "set");
  EXPECT_EQ(find({dir.at("set/")}).array().name, "set");
  dir.put("nums/0.npy", npy_rows(1));
  dir.put("nums/1.npy", npy_rows(1));
  EXPECT_EQ(find({dir.at("nums/*")}).array().name, "nums");
  DiscoverOptions options;
  options.name = "weights";
  EXPECT_EQ(find({dir.at("set")}, options).array().name, "weights");
}

TEST(Discover, StopsOnRequestAndReportsProgress) {
  const TempFolder dir;
  for (int f = 0; f < 200; ++f) dir.put(cat("s", f, ".npy"), npy_rows(1));
  CancelToken cancel;
  DiscoverOptions options;
  options.cancel = &cancel;
  std::atomic<std::int64_t> last{0};
  options.progress = [&](const ProgressUpdate& update) {
    EXPECT_EQ(update.stage, "discover");
    last = update.done_bytes;
  };
  const Catalog catalog = find({dir.path()}, options);
  EXPECT_EQ(last, catalog.counters.bytes_read);
  cancel.request();
  EXPECT_THROW(find({dir.path()}, options), Interrupted);
}

// covers: loading D18
TEST(Discover, IsTheSameWithAnyNumberOfThreads) {
  const TempFolder dir;
  for (int f = 0; f < 150; ++f) dir.put(cat("s", f, ".npy"), npy_rows(f % 7, 3));
  const Catalog one = discover({dir.path()}, {}, ThreadPool(1));
  const Catalog many = discover({dir.path()}, {}, ThreadPool(16));
  EXPECT_EQ(one.arrays, many.arrays);
  EXPECT_EQ(one.files, many.files);
  EXPECT_EQ(one.notes, many.notes);
}

}  // namespace
}  // namespace loadstone
