#include <gtest/gtest.h>

#include "loadstone/format/format.h"
#include "loadstone/format/sidecar.h"
#include "tests/fakes/format_files.h"

namespace loadstone {
namespace {

class SizedSource final : public ByteSource {
 public:
  explicit SizedSource(std::int64_t size) : size_(size) {}
  void read(std::int64_t, std::span<std::byte>) override { ADD_FAILURE() << "raw discovery reads no bytes"; }
  FileStamp stamp() const override { return {size_, 1}; }
  std::string_view path() const override { return "a.bin"; }

 private:
  std::int64_t size_;
};

ReadHints hints(std::string_view dtype, std::optional<Shape> row_shape) {
  ReadHints out;
  out.dtype = parse_dtype(dtype);
  out.row_shape = std::move(row_shape);
  return out;
}

Header read(std::int64_t size, const ReadHints& said) {
  SizedSource source(size);
  return find_format("raw")->discover(source, said).at(0);
}

// covers: loading D11, W1, D8
TEST(Raw, RowsFollowFromTheSize) {
  EXPECT_EQ(read(48, hints("f4", Shape{3})).shape, (Shape{4, 3}));
  EXPECT_EQ(read(48, hints("f4", Shape{})).shape, (Shape{12}));
  EXPECT_EQ(read(48, hints("f4", Shape{2, 3})).shape, (Shape{2, 2, 3}));
  const Error error = error_of([] { read(26, hints("i4", Shape{2})); });
  expect_error(error, ErrorKind::data, {"'a.bin'", "multiple of 8 bytes", "26 bytes", "(2,)"});
  EXPECT_EQ(error.facts().file, "a.bin");
}

// covers: loading W2
TEST(Raw, OffsetByteOrderAndElementOrderAreDeclared) {
  ReadHints said = hints(">i2", Shape{5});
  said.offset_bytes = 8;
  said.order = ElementOrder::f;
  const Header header = read(48, said);
  EXPECT_EQ(header.shape, (Shape{4, 5}));
  EXPECT_EQ(header.byte_order, ByteOrder::big);
  EXPECT_EQ(header.order, ElementOrder::f);
  EXPECT_EQ(header.offset_bytes, 8);
  EXPECT_EQ(read(8, said).shape, (Shape{0, 5}));
  expect_error(error_of([&] { read(7, said); }), ErrorKind::data, {"a.bin", "offset of 8", "found 7"});
  said.offset_bytes = -1;
  expect_error(error_of([&] { read(7, said); }), ErrorKind::usage, {"offset"});
}

// covers: loading W3
TEST(Raw, AnEmptyFileHasNoRows) {
  EXPECT_EQ(read(0, hints("f4", Shape{3})).shape, (Shape{0, 3}));
}

// covers: loading D11, D16
TEST(Raw, AWholeShapeMustFitExactly) {
  ReadHints said = hints("i4", std::nullopt);
  said.shape = Shape{3, 4};
  EXPECT_EQ(read(48, said).shape, (Shape{3, 4}));
  expect_error(error_of([&] { read(47, said); }), ErrorKind::data, {"a.bin", "truncated", "48", "47"});
  expect_error(error_of([&] { read(49, said); }), ErrorKind::data, {"a.bin", "trailing", "48", "49"});
  said.row_shape = Shape{5};
  expect_error(error_of([&] { read(48, said); }), ErrorKind::usage, {"a.bin", "(5,)"});
  said = hints("i4", std::nullopt);
  said.shape = Shape{};
  EXPECT_EQ(read(4, said).shape, Shape{});
  said.shape = Shape{3, 0};
  EXPECT_EQ(read(0, said).shape, (Shape{3, 0}));
}

// covers: loading D11
TEST(Raw, AsksForWhatIsMissing) {
  ReadHints none;
  expect_error(error_of([&] { read(48, none); }), ErrorKind::usage, {"dtype", "--dtype"});
  expect_error(error_of([&] { read(48, hints("f4", std::nullopt)); }), ErrorKind::usage, {"--row-shape"});
  expect_error(error_of([&] { read(48, hints("f4", Shape{3, 0})); }), ErrorKind::usage, {"no bytes", "--shape"});
  expect_error(error_of([&] { read(48, hints("int4", Shape{3})); }), ErrorKind::usage, {"int4"});
  expect_error(error_of([&] { read(48, hints("f4", Shape{1LL << 62, 8})); }), ErrorKind::usage, {"too large"});
  expect_error(error_of([&] { read(48, hints("f4", Shape{-1})); }), ErrorKind::usage, {"negative"});
}

// covers: loading D10
TEST(Sidecar, IsReadStrictly) {
  const Sidecar good = parse_sidecar(R"({"dtype": ">i2", "row_shape": [5], "offset": 8, "order": "F",
                                        "files": {"b.bin": {"offset": 0}}})",
                                     "d/shard_meta.json");
  EXPECT_EQ(good.of("a.bin").dtype, parse_dtype(">i2"));
  EXPECT_EQ(good.of("a.bin").row_shape, (Shape{5}));
  EXPECT_EQ(good.of("a.bin").offset_bytes, 8);
  EXPECT_EQ(good.of("b.bin").offset_bytes, 0);
  EXPECT_EQ(good.of("b.bin").order, ElementOrder::f);
  struct Row {
    const char* text;
    const char* word;
  };
  for (const Row& row : std::vector<Row>{{"", "not valid JSON"},
                                         {"{", "not valid JSON"},
                                         {"{} {}", "not valid JSON"},
                                         {"\"\xff\"", "not valid JSON"},
                                         {"[]", "expected an object"},
                                         {"null", "expected an object"},
                                         {R"({"dtype": 4})", "'dtype'"},
                                         {R"({"dtype": "flaot32"})", "float32"},
                                         {R"({"dtype": "f4", "dtype": "f8"})", "twice"},
                                         {R"({"row_shape": 3})", "'row_shape'"},
                                         {R"({"row_shape": [3.0]})", "3.0"},
                                         {R"({"row_shape": [-3]})", "-3"},
                                         {R"({"row_shape": ["3"]})", "'row_shape'"},
                                         {R"({"row_shape": [1e400]})", "not valid JSON"},
                                         {R"({"row_shape": [18446744073709551615]})", "2^63-1"},
                                         {R"({"row_shape": [99999999999999999999999]})", "'row_shape'"},
                                         {R"({"row_shape": [true]})", "true"},
                                         {R"({"offset": -1})", "'offset'"},
                                         {R"({"offset": 1.5})", "'offset'"},
                                         {R"({"offset": null})", "'offset'"},
                                         {R"({"order": "K"})", "'order'"},
                                         {R"({"order": 1})", "'order'"},
                                         {R"({"ofset": 8})", "did you mean 'offset'"},
                                         {R"({"files": []})", "'files'"},
                                         {R"({"files": {"a": {"files": {}}}})", "unknown key"}}) {
    SCOPED_TRACE(row.text);
    const Error error = error_of([&] { parse_sidecar(row.text, "d/shard_meta.json"); });
    expect_error(error, ErrorKind::data, {"'d/shard_meta.json'", row.word});
  }
  std::string deep(200000, '[');
  EXPECT_EQ(error_of([&] { parse_sidecar(deep, "s"); }).kind(), ErrorKind::data);
}

}  // namespace
}  // namespace loadstone
