#include <gtest/gtest.h>

#include <cstring>

#include "loadstone/format/format.h"
#include "loadstone/format/npy_header.h"
#include "tests/fakes/format_files.h"

namespace loadstone {
namespace {

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes, std::int64_t declared = -1)
      : bytes_(std::move(bytes)), size_(declared < 0 ? static_cast<std::int64_t>(bytes_.size()) : declared) {}
  void read(std::int64_t offset_bytes, std::span<std::byte> dst) override {
    ASSERT_LE(static_cast<std::size_t>(offset_bytes) + dst.size(), bytes_.size());
    std::memcpy(dst.data(), bytes_.data() + offset_bytes, dst.size());
    bytes_read += static_cast<std::int64_t>(dst.size());
    ++reads;
  }
  FileStamp stamp() const override { return {size_, 1}; }
  std::string_view path() const override { return "a.npy"; }
  std::int64_t bytes_read = 0;
  int reads = 0;

 private:
  std::string bytes_;
  std::int64_t size_;
};

Header read(const std::string& bytes, const ReadHints& hints = {}) {
  MemorySource source(bytes);
  return find_format("npy")->discover(source, hints).at(0);
}

std::string file_with(const std::string& descr, const std::string& shape, std::size_t payload) {
  return npy_bytes(cat("{'descr': ", descr, ", 'fortran_order': False, 'shape': ", shape, "}\n"),
                   std::string(payload, 'x'));
}

ReadHints named(std::string_view dtype) {
  ReadHints hints;
  hints.dtype = parse_dtype(dtype);
  return hints;
}

TEST(NpyHeader, IsReadInEverySpelling) {
  struct Row {
    const char* why;
    std::string text;
    std::string descr;
    Shape shape;
    bool fortran;
  };
  const std::vector<Row> rows{
      {"as NumPy writes it", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n", "<f4", {3, 2}, false},
      {"other order and quotes", R"({"shape":(3,2),"fortran_order":True,"descr":"<f4"})", "<f4", {3, 2}, true},
      {"no newline", "{'descr':'|u1','fortran_order':False,'shape':()}", "|u1", {}, false},
      {"one dimension", "{'descr':'|u1','fortran_order':False,'shape':(7,)}", "|u1", {7}, false},
      {"longs of Python 2", "{'descr':'<i8','fortran_order':False,'shape':(3L, 2L)}", "<i8", {3, 2}, false},
      {"u-strings of Python 2", "{u'descr':u'<i8',u'fortran_order':False,u'shape':(3,)}", "<i8", {3}, false},
      {"NumPy scalars",
       "{'descr':'<i8','fortran_order':False,'shape':(np.int64(3), numpy.intp(2))}",
       "<i8",
       {3, 2},
       false},
      {"line breaks",
       "\n{ 'descr' :\t'<i8',\r\n'fortran_order': False ,\n'shape':\n(\n3\n,\n)\n,}\n",
       "<i8",
       {3},
       false},
      {"escapes", R"({'\x64escr':'<i8','fortran_order':False,'shape':(3,)})", "<i8", {3}, false},
      {"signs", "{'descr':'<i8','fortran_order':False,'shape':(+3,-0)}", "<i8", {3, 0}, false},
      {"the largest dimension",
       "{'descr':'<i8','fortran_order':False,'shape':(9223372036854775807,)}",
       "<i8",
       {9223372036854775807},
       false},
      {"brackets around a tuple", "{'descr':('<i8'),'fortran_order':(False),'shape':((3,))}", "<i8", {3}, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.why);
    const NpyHeader header = parse_npy_header(row.text);
    EXPECT_EQ(header.descr, row.descr);
    EXPECT_EQ(header.shape, row.shape);
    EXPECT_EQ(header.fortran_order, row.fortran);
  }
}

// covers: loading N1
TEST(NpyHeader, RefusesEverythingElseAndQuotesIt) {
  struct Row {
    const char* word;
    std::string text;
  };
  const std::string good = "'descr':'<f4','fortran_order':False,";
  const std::vector<Row> rows{
      {"'fortran_order' is missing", "{'descr':'<f4','shape':(2,)}"},
      {"'descr' is missing", "{'fortran_order':False,'shape':(2,)}"},
      {"'shape' is missing", "{" + good + "}"},
      {"missing", "{}"},
      {"unknown key 'extra'", "{" + good + "'shape':(2,),'extra':1}"},
      {"occurs twice", "{" + good + "'shape':(2,),'shape':(3,)}"},
      {"a key is not a string", "{1:2," + good + "'shape':(2,)}"},
      {"neither True nor False", "{'descr':'<f4','fortran_order':1,'shape':(2,)}"},
      {"neither True nor False", "{'descr':'<f4','fortran_order':'False','shape':(2,)}"},
      {"neither True nor False", "{'descr':'<f4','fortran_order':None,'shape':(2,)}"},
      {"not a literal", "{'descr':'<f4','fortran_order':false,'shape':(2,)}"},
      {"shape is not a tuple", "{" + good + "'shape':[3, 2]}"},
      {"shape is not a tuple", "{" + good + "'shape':(3)}"},
      {"shape is not a tuple", "{" + good + "'shape':3}"},
      {"shape is not a tuple", "{" + good + "'shape':'(3,)'}"},
      {"not an integer", "{" + good + "'shape':(3.0,)}"},
      {"not an integer", "{" + good + "'shape':(1e3,)}"},
      {"not an integer", "{" + good + "'shape':(0x10,)}"},
      {"not an integer", "{" + good + "'shape':(1_0,)}"},
      {"not an integer", "{" + good + "'shape':('3',)}"},
      {"not an integer", "{" + good + "'shape':(True,)}"},
      {"not an integer", "{" + good + "'shape':((3,2),)}"},
      {"not an integer", "{" + good + "'shape':(None,)}"},
      {"leading zero", "{" + good + "'shape':(03,)}"},
      {"negative dimension -1", "{" + good + "'shape':(-1, 4)}"},
      {"negative dimension", "{" + good + "'shape':(4, -9223372036854775808)}"},
      {"too large", "{" + good + "'shape':(9223372036854775808,)}"},
      {"too large", "{" + good + "'shape':(" + std::string(400, '9') + ",)}"},
      {"65 dimensions", "{" + good + "'shape':(" +
                            [] {
                              std::string ones;
                              for (int i = 0; i < 65; ++i) ones += "1,";
                              return ones;
                            }() +
                            ")}"},
      {"is missing", "{" + good + "'shape':(3,"},
      {"expected ','", "{" + good + "'shape':(3 2)}"},
      {"unexpected", "{" + good + "'shape':(,)}"},
      {"unexpected", "{" + good + "'shape':(3,,2)}"},
      {"unexpected", "{" + good + ",'shape':(3,)}"},
      {"expected ','", "{'descr':'<f4' 'fortran_order':False,'shape':(3,)}"},
      {"':' after a key", "{'descr' '<f4','fortran_order':False,'shape':(3,)}"},
      {"text after", "{" + good + "'shape':(3,)} x"},
      {"text after", "{" + good + "'shape':(3,)}{}"},
      {"a dictionary", "['descr']"},
      {"the end of the header", ""},
      {"the end of the header", "   \n"},
      {"ends in the middle", "{"},
      {"ends in the middle", "{" + good + "'shape':"},
      {"a string has no end", "{'descr':'<f4"},
      {"a string has no end", "{'descr':'<f4\\"},
      {"line break", "{'descr':'<f\n4'}"},
      {"nested too deeply", "{" + good + "'shape':" + std::string(100000, '(')},
      {"nested too deeply", "{" + good + "'shape':" + std::string(100000, '[')},
      {"nested too deeply", "{" + good + "'shape':(" +
                                [] {
                                  std::string calls;
                                  for (int i = 0; i < 1000; ++i) calls += "np.int64(";
                                  return calls;
                                }()},
      {"not a literal", "{" + good + "'shape':(__import__('os').system('true'),)}"},
      {"not a literal", "{'descr':dict(a=1),'fortran_order':False,'shape':(3,)}"},
      {"not a literal", "{" + good + "'shape':(np.int64('3'),)}"},
      {"not a literal", "{" + good + "'shape':(np.float64(3),)}"},
      {"descr is not a type string", "{'descr':4,'fortran_order':False,'shape':(3,)}"},
      {"unexpected", std::string("{'descr':'<f4',\0'fortran_order':False,'shape':(3,)}", 52)},
      {"unexpected", "{'descr':'<f4',#comment\n'fortran_order':False,'shape':(3,)}"},
      {"\\x escape", "{'descr':'\\xg4','fortran_order':False,'shape':(3,)}"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text.substr(0, 80));
    const Error error = error_of([&] { read(npy_bytes(row.text, std::string(12, '\0'))); });
    expect_error(error, ErrorKind::data, {"'a.npy': malformed npy header: ", row.word});
    EXPECT_EQ(error.facts().file, "a.npy");
    EXPECT_LT(error.message().size(), 600U);
  }
}

// covers: loading N1, N3
TEST(Npy, ReadsAllVersionsAndAnyPadding) {
  for (const int major : {1, 2, 3}) {
    for (const std::size_t pad : {0U, 1U, 5U, 16U, 64U, 300U, 5000U}) {
      const std::string header =
          "{'descr': '<f8', 'fortran_order': False, 'shape': (5, 3)}" + std::string(pad, ' ') + (pad > 0 ? "\n" : "");
      const Header found = read(npy_bytes(header, std::string(120, 'x'), major));
      EXPECT_EQ(found.shape, (Shape{5, 3}));
      EXPECT_EQ(found.dtype, dtypes::kFloat64);
      EXPECT_EQ(found.offset_bytes, static_cast<std::int64_t>((major == 1 ? 10U : 12U) + header.size()));
    }
  }
}

// covers: loading N1
TEST(Npy, VersionThreeIsUtf8) {
  const std::string bad = "{'descr': [('\xff', '<f4')], 'fortran_order': False, 'shape': (1,)}";
  expect_error(error_of([&] { read(npy_bytes(bad, "xxxx", 3)); }), ErrorKind::data, {"a.npy", "UTF-8"});
  const std::string good = "{'descr': [('é', '<f4')], 'fortran_order': False, 'shape': (1,)}";
  expect_error(error_of([&] { read(npy_bytes(good, "xxxx", 3)); }), ErrorKind::data, {"structured", "é"});
}

// covers: loading N2
TEST(Npy, ChecksLengthsBeforeItAllocates) {
  const std::string magic("\x93NUMPY", 6);
  struct Row {
    const char* why;
    std::string bytes;
    std::vector<std::string> words;
  };
  const std::vector<Row> rows{
      {"magic only", magic, {"truncated npy header"}},
      {"no length", magic + std::string("\x01\x00", 2), {"truncated npy header"}},
      {"half a length", magic + std::string("\x02\x00\x10\x00", 4), {"truncated npy header"}},
      {"4 GiB header", magic + std::string("\x02\x00\xf0\xff\xff\xff", 6), {"truncated npy header", "4294967280"}},
      {"header past the end", magic + std::string("\x01\x00\xff\xff", 4) + std::string(100, ' '), {"65535"}},
      {"version 0.0", magic + std::string("\x00\x00\x00\x00", 4), {"version 0.0"}},
      {"version 4.0", magic + std::string("\x04\x00\x00\x00\x00\x00", 6), {"version 4.0"}},
      {"version 1.1", magic + std::string("\x01\x01\x00\x00\x00\x00", 6), {"version 1.1"}},
      {"version 255.255", magic + std::string("\xff\xff\x00\x00\x00\x00", 6), {"version 255.255"}},
      {"header of no bytes", magic + std::string("\x01\x00\x00\x00", 4), {"malformed npy header"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.why);
    std::vector<std::string> words = row.words;
    words.emplace_back("'a.npy'");
    expect_error(error_of([&] { read(row.bytes); }), ErrorKind::data, words);
  }
  // A header above the limit in a file that is large enough for it: refused without reading it.
  std::string head = magic + std::string("\x02\x00\xff\xff\xff\x7f", 6) + std::string(300, ' ');
  MemorySource huge(head, 1LL << 40);
  const Error error = error_of([&] { find_format("npy")->discover(huge, {}); });
  expect_error(error, ErrorKind::data, {"above the limit of 67108864"});
  EXPECT_LE(huge.bytes_read, 512);
}

// covers: loading D16, F7, N2
TEST(Npy, TheSizeMustBeExact) {
  const std::string whole = npy_file("<f4", {4, 3}, 4);
  EXPECT_EQ(read(whole).shape, (Shape{4, 3}));
  const auto size = static_cast<std::int64_t>(whole.size());
  const Error cut = error_of([&] { read(whole.substr(0, whole.size() - 1)); });
  expect_error(cut, ErrorKind::data, {"'a.npy': truncated", cat("expected ", size, " bytes"), cat("found ", size - 1)});
  EXPECT_EQ(cut.facts().expected, cat(size, " bytes"));
  EXPECT_EQ(cut.facts().found, cat(size - 1, " bytes"));
  expect_error(error_of([&] { read(whole + "x"); }), ErrorKind::data,
               {"'a.npy': trailing bytes", cat("expected ", size, " bytes"), cat("found ", size + 1)});
  expect_error(error_of([&] { read(whole.substr(0, 128)); }), ErrorKind::data, {"payload 48", "payload 0"});
}

// covers: loading N2
TEST(Npy, ShapesWhoseProductsOverflowAreRefused) {
  for (const char* shape : {"(4611686018427387904, 8)", "(9223372036854775807,)",
                            "(4611686018427387904, 4611686018427387904)", "(0, 4611686018427387904, 8)",
                            "(4611686018427387904, 8, 0)", "(4294967296, 4294967296, 4294967296, 4294967296)"}) {
    SCOPED_TRACE(shape);
    expect_error(error_of([&] { read(file_with("'<f4'", shape, 64)); }), ErrorKind::data,
                 {"'a.npy': shape (", "too large"});
  }
  expect_error(error_of([&] { read(file_with("'<f4'", "(1000000000000,)", 64)); }), ErrorKind::data, {"truncated"});
  EXPECT_EQ(read(file_with("'<f4'", "(1000000000000, 0)", 0)).shape, (Shape{1000000000000, 0}));
}

// covers: loading F8
TEST(Npy, KeepsByteOrderAndElementOrder) {
  const Header big = read(file_with("'>f8'", "(2,)", 16));
  EXPECT_EQ(big.dtype, dtypes::kFloat64);
  EXPECT_EQ(big.byte_order, ByteOrder::big);
  EXPECT_EQ(read(file_with("'>i1'", "(2,)", 2)).byte_order, ByteOrder::little);
  EXPECT_EQ(read(file_with("'>c16'", "(2,)", 32)).byte_order, ByteOrder::big);
  EXPECT_EQ(read(npy_file("<i4", {3, 2}, 4, true)).order, ElementOrder::f);
}

TEST(Npy, ReadsTypesHoweverTheyAreWritten) {
  struct Row {
    const char* descr;
    DType dtype;
    std::size_t bytes;
  };
  for (const Row& row : std::vector<Row>{{"'|b1'", dtypes::kBool, 1},
                                         {"'?'", dtypes::kBool, 1},
                                         {"'|u1'", dtypes::kUInt8, 1},
                                         {"'<u1'", dtypes::kUInt8, 1},
                                         {"'=f4'", dtypes::kFloat32, 4},
                                         {"'f4'", dtypes::kFloat32, 4},
                                         {"'float32'", dtypes::kFloat32, 4},
                                         {"'<d'", dtypes::kFloat64, 8},
                                         {"'e'", dtypes::kFloat16, 2},
                                         {"'<c8'", dtypes::kComplex64, 8},
                                         {"'bfloat16'", dtypes::kBFloat16, 2},
                                         {"'<u8'", dtypes::kUInt64, 8}}) {
    SCOPED_TRACE(row.descr);
    EXPECT_EQ(read(file_with(row.descr, "(1,)", row.bytes)).dtype, row.dtype);
  }
}

// covers: loading R15, F8, N1
TEST(Npy, TypesThatCannotBePlacedAreRefusedByName) {
  struct Row {
    const char* descr;
    std::vector<std::string> words;
  };
  for (const Row& row : std::vector<Row>{{"'|O'", {"'|O'", "object", "never"}},
                                         {"'O'", {"object"}},
                                         {"'<f16'", {"'<f16'", "longdouble"}},
                                         {"'>f12'", {"longdouble"}},
                                         {"'<c32'", {"'<c32'", "longdouble"}},
                                         {"'|S10'", {"'|S10'", "text"}},
                                         {"'<U5'", {"'<U5'", "text"}},
                                         {"'|a3'", {"text"}},
                                         {"'<M8[ns]'", {"'<M8[ns]'", "datetime64", "--dtype int64"}},
                                         {"'<m8[s]'", {"timedelta64", "--dtype int64"}},
                                         {"'>M8[D]'", {"datetime64"}},
                                         {"'<V2'", {"'<V2'", "lost", "--dtype bfloat16"}},
                                         {"'|V1'", {"lost", "float8_e4m3fn"}},
                                         {"'<f1'", {"'<f1'", "lost", "--dtype"}},
                                         {"'|V16'", {"lost", "--dtype"}},
                                         {"[('x', '<f4'), ('y', '<i4', (2,))]", {"structured", "'x'"}},
                                         {"[]", {"structured"}},
                                         {"('<f4', (3,))", {"sub-array"}},
                                         {"''", {"dtype ''"}},
                                         {"'<f3'", {"'<f3'"}},
                                         {"'<x4'", {"'<x4'"}},
                                         {"'|f4'", {"'|f4'"}},
                                         {"'<f4,<i4'", {"'<f4,<i4'"}},
                                         {"'l'", {"dtype 'l'"}},
                                         {"'int4'", {"dtype 'int4'"}},
                                         {"'\\x1b[31m'", {"dtype '\\x1b[31m'"}}}) {
    SCOPED_TRACE(row.descr);
    std::vector<std::string> words = row.words;
    words.emplace_back("'a.npy': dtype");
    const Error error = error_of([&] { read(file_with(row.descr, "(1,)", 8)); });
    expect_error(error, ErrorKind::data, words);
    EXPECT_EQ(error.facts().file, "a.npy");
  }
}

// covers: loading N4
TEST(Npy, NamesALostDtype) {
  EXPECT_EQ(read(file_with("'<V2'", "(3,)", 6), named("bfloat16")).dtype, dtypes::kBFloat16);
  EXPECT_EQ(read(file_with("'|V1'", "(3,)", 3), named("float8_e5m2")).dtype, dtypes::kFloat8E5M2);
  EXPECT_EQ(read(file_with("'<f1'", "(3,)", 3), named("float8_e4m3fn")).dtype, dtypes::kFloat8E4M3FN);
  const Header ticks = read(file_with("'>M8[ns]'", "(3,)", 24), named("int64"));
  EXPECT_EQ(ticks.dtype, dtypes::kInt64);
  EXPECT_EQ(ticks.byte_order, ByteOrder::big);
  EXPECT_NE(ticks.note.find(">M8[ns]"), std::string::npos);
  EXPECT_EQ(read(file_with("'>V2'", "(3,)", 6), named("bfloat16")).byte_order, ByteOrder::big);
  for (const auto& row : std::vector<std::pair<std::string, std::string>>{
           {"'<V2'", "float32"}, {"'<M8[ns]'", "int32"}, {"'<f1'", "bfloat16"}, {"'|V1'", "int4"}}) {
    expect_error(error_of([&] { read(file_with(row.first, "(1,)", 8), named(row.second)); }), ErrorKind::usage,
                 {"a.npy", row.second});
  }
  for (const std::string descr : {"'|O'", "'<f16'", "'|S2'", "[('x','<f2')]"}) {
    expect_error(error_of([&] { read(file_with(descr, "(1,)", 8), named("bfloat16")); }), ErrorKind::data, {"a.npy"});
  }
}

// covers: loading D4
TEST(Npy, DoesNotCast) {
  EXPECT_EQ(read(file_with("'<f4'", "(1,)", 4), named("float32")).dtype, dtypes::kFloat32);
  expect_error(error_of([&] { read(file_with("'<f4'", "(1,)", 4), named("float64")); }), ErrorKind::usage,
               {"'a.npy'", "float64", "float32", "does not cast"});
}

TEST(Npy, OptionsOfRawFilesMayNotContradict) {
  ReadHints hints;
  hints.row_shape = Shape{3};
  EXPECT_EQ(read(file_with("'<f4'", "(2,3)", 24), hints).shape, (Shape{2, 3}));
  hints.row_shape = Shape{4};
  expect_error(error_of([&] { read(file_with("'<f4'", "(2,3)", 24), hints); }), ErrorKind::usage,
               {"a.npy", "--row-shape", "(4,)", "(3,)"});
  hints = {};
  hints.offset_bytes = 8;
  expect_error(error_of([&] { read(file_with("'<f4'", "(2,3)", 24), hints); }), ErrorKind::usage, {"--offset"});
}

// covers: loading N6
TEST(Npy, SaysWhatAFileWithoutTheMagicIs) {
  struct Row {
    std::string bytes;
    std::vector<std::string> words;
  };
  for (const Row& row : std::vector<Row>{
           {"", {"empty file", "0 bytes"}},
           {"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n", {"Git LFS pointer"}},
           {std::string("PK\x03\x04\x14\0\0\0\0\0", 10) + std::string(16, '\0') + "arr_0.npy", {"npz", "zip"}},
           {std::string("PK\x03\x04\x14\0\0\0\0\0", 10) + "word/document.xml", {"zip archive"}},
           {"\x93numpy\x01", {"\\x93numpy"}},
           {"\x13NUMPY", {"begins with"}},
           {"<!DOCTYPE html><html>", {"HTML"}},
           {"\n  <HTML>", {"HTML"}},
           {"<?xml version='1.0'?><Error/>", {"XML"}},
           {"\x1f\x8b\x08", {"gzip"}},
           {"\x89HDF\r\n\x1a\n", {"HDF5"}},
           {"PAR1....", {"Parquet"}},
           {"ARROW1..", {"Arrow"}},
           {"\x80\x04\x95", {"pickle"}},
           {std::string("\x02\0\0\0\0\0\0\0{}", 10), {"safetensors"}},
           {std::string(300, '\0'), {"zeros only"}},
           {"hello\n", {"text"}},
           {"\x28\xb5\x2f\xfd", {"zstd"}}}) {
    SCOPED_TRACE(row.bytes.substr(0, 20));
    std::vector<std::string> words = row.words;
    words.emplace_back("'a.npy': not an npy file (bad magic): it is ");
    expect_error(error_of([&] { read(row.bytes); }), ErrorKind::data, words);
    EXPECT_FALSE(find_format("npy")->recognise(std::as_bytes(std::span(row.bytes))));
  }
}

// covers: loading D8
TEST(Npy, ReadsTheHeaderInAtMostTwoReads) {
  MemorySource small(npy_file("<f4", {1000, 3}, 4));
  find_format("npy")->discover(small, {});
  EXPECT_EQ(small.reads, 1);
  EXPECT_EQ(small.bytes_read, 256);
  MemorySource large(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,)}" + std::string(9000, ' '),
                               std::string(4000, 'x')));
  find_format("npy")->discover(large, {});
  EXPECT_EQ(large.reads, 2);
  EXPECT_EQ(large.bytes_read, 10 + 58 + 9000);
}

}  // namespace
}  // namespace loadstone
