#include "loadstone/array/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "loadstone/array/place.h"
#include "loadstone/base/error.h"

namespace loadstone {
namespace {

Error parse_error(const std::string& text) {
  try {
    parse_dtype(text);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << text << " was accepted";
  return internal_error("none");
}

TEST(DType, NamesAndNumpyStringsAreProjectionsOfOneValue) {
  struct Row {
    std::string name;
    DType dtype;
    std::string typestr;
  };
  const std::vector<Row> rows{{"bool", dtypes::kBool, "|b1"},
                              {"int8", dtypes::kInt8, "|i1"},
                              {"uint16", dtypes::kUInt16, "<u2"},
                              {"float16", dtypes::kFloat16, "<f2"},
                              {"float64", dtypes::kFloat64, "<f8"},
                              {"bfloat16", dtypes::kBFloat16, ""},
                              {"complex64", dtypes::kComplex64, "<c8"},
                              {"complex128", dtypes::kComplex128, "<c16"},
                              {"float8_e4m3fn", dtypes::kFloat8E4M3FN, ""},
                              {"int4", {0, 4, 1}, ""}};
  for (const Row& row : rows) {
    EXPECT_EQ(to_string(row.dtype), row.name);
    EXPECT_EQ(parse_dtype(row.name).dtype, row.dtype);
    EXPECT_EQ(numpy_typestr(row.dtype), row.typestr);
    if (!row.typestr.empty()) {
      EXPECT_EQ(parse_typestr(row.typestr)->dtype, row.dtype);
    }
  }
  EXPECT_EQ(to_string(DType{2, 32, 4}), "dtype(2, 32, 4)");
}

TEST(DType, ParsesWhatUsersWrite) {
  EXPECT_EQ(parse_dtype("f4").dtype, dtypes::kFloat32);
  EXPECT_EQ(parse_dtype("<f4"), (DiskType{dtypes::kFloat32, ByteOrder::little}));
  EXPECT_EQ(parse_dtype(">i2"), (DiskType{dtypes::kInt16, ByteOrder::big}));
  EXPECT_EQ(parse_dtype(">bfloat16"), (DiskType{dtypes::kBFloat16, ByteOrder::big}));
  EXPECT_EQ(parse_dtype(">i1"), (DiskType{dtypes::kInt8, ByteOrder::little})) << "one byte has no order";
  EXPECT_EQ(parse_dtype("?").dtype, dtypes::kBool);
  EXPECT_EQ(parse_dtype("f8").dtype, dtypes::kFloat64);
  EXPECT_EQ(parse_dtype("float").dtype, dtypes::kFloat64);
  EXPECT_EQ(parse_dtype("bf16").dtype, dtypes::kBFloat16);
}

TEST(DType, RefusalsNameTheCure) {
  EXPECT_NE(parse_error("float31").message().find("did you mean 'float32'; known: "), std::string::npos);
  EXPECT_NE(parse_error("f16").message().find("half precision is 'float16'"), std::string::npos);
  EXPECT_NE(parse_error("<M8[ns]").message().find("--dtype int64"), std::string::npos);
  EXPECT_NE(parse_error("O").message().find("object"), std::string::npos);
  EXPECT_EQ(parse_error("").kind(), ErrorKind::usage);
  EXPECT_EQ(parse_error("<").kind(), ErrorKind::usage);
}

// covers: loading R15, N4
TEST(DType, TypesThatCannotBePlacedAreExplained) {
  for (const char* typestr : {"|O", "<M8[ns]", "<m8[s]", "<U4", "|S3", "|V2", "<f16", "<c32", "<f1"}) {
    EXPECT_EQ(parse_typestr(typestr), std::nullopt) << typestr;
    EXPECT_NE(explain_typestr(typestr), "") << typestr;
  }
  EXPECT_NE(explain_typestr("|V2").find("bfloat16"), std::string::npos);
  EXPECT_NE(explain_typestr("<f1").find("float8_e4m3fn"), std::string::npos);
  for (const char* odd : {"", "f", "f4", "x<f4", "|f4", "<f3", "<q9"}) EXPECT_EQ(parse_typestr(odd), std::nullopt);
}

TEST(DType, SizesRoundUpOnceAndDoNotOverflow) {
  EXPECT_EQ(dtypes::kFloat32.nbytes(3), 12);
  EXPECT_EQ((DType{0, 4, 1}).nbytes(3), 2);
  EXPECT_EQ((DType{15, 6, 1}).nbytes(5), 4);
  EXPECT_EQ((DType{0, 4, 1}).nbytes(0), 0);
  EXPECT_THROW(dtypes::kFloat64.nbytes(std::int64_t{1} << 61), Error);
  EXPECT_THROW((DType{0, 4, 1}).nbytes(std::int64_t{1} << 61), Error);
}

// covers: loading R14
TEST(DType, BytesThatSwapTogether) {
  EXPECT_EQ(dtypes::kInt8.swap_bytes(), 1);
  EXPECT_EQ(dtypes::kFloat64.swap_bytes(), 8);
  EXPECT_EQ(dtypes::kComplex64.swap_bytes(), 4);
  EXPECT_EQ(dtypes::kComplex128.swap_bytes(), 8);
  EXPECT_EQ((DType{2, 32, 4}).swap_bytes(), 4) << "lanes keep their order";
}

TEST(Place, Names) {
  EXPECT_EQ(to_string(Place{}), "cpu:0");
  EXPECT_EQ(to_string(Place{PlaceKind::cuda, 3}), "cuda:3");
  EXPECT_EQ(to_string(Place{static_cast<PlaceKind>(15), 1}), "kind 15:1");
  EXPECT_TRUE((Place{PlaceKind::pinned, 0}).host_accessible());
  EXPECT_FALSE((Place{PlaceKind::cuda, 0}).host_accessible());
}

}  // namespace
}  // namespace loadstone
