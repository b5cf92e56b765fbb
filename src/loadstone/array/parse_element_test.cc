#include "loadstone/array/parse_element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "loadstone/base/error.h"

namespace loadstone {
namespace {

template <typename T>
T value_of(std::string_view text, DType dtype) {
  const std::vector<std::byte> bytes = parse_element(text, dtype);
  EXPECT_EQ(bytes.size(), sizeof(T));
  T out{};
  std::memcpy(&out, bytes.data(), std::min(sizeof out, bytes.size()));
  return out;
}

TEST(ParseElement, IntegersAndBooleansInRange) {
  EXPECT_EQ(value_of<std::int8_t>("-128", dtypes::kInt8), -128);
  EXPECT_EQ(value_of<std::uint64_t>("18446744073709551615", dtypes::kUInt64), ~std::uint64_t{0});
  EXPECT_EQ(value_of<std::int64_t>("-9223372036854775808", dtypes::kInt64), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(value_of<std::uint8_t>("true", dtypes::kBool), 1);
  EXPECT_EQ(value_of<std::uint8_t>("0", dtypes::kBool), 0);
  for (const auto& [text, dtype] : {std::pair{"128", dtypes::kInt8},
                                    {"-1", dtypes::kUInt8},
                                    {"1.0", dtypes::kInt32},
                                    {"", dtypes::kInt32},
                                    {"2", dtypes::kBool},
                                    {"1 ", dtypes::kInt32},
                                    {"x", dtypes::kFloat32},
                                    {"0", dtypes::kFloat8E4M3FN}}) {
    EXPECT_THROW(parse_element(text, dtype), Error) << text;
  }
}

TEST(ParseElement, FloatsAreRoundedOnce) {
  EXPECT_EQ(value_of<double>("0.1", dtypes::kFloat64), 0.1);
  EXPECT_EQ(value_of<float>("0.1", dtypes::kFloat32), 0.1F);
  EXPECT_TRUE(std::isnan(value_of<float>("nan", dtypes::kFloat32)));
  EXPECT_EQ(value_of<float>("1e999", dtypes::kFloat32), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(value_of<double>("-0.0", dtypes::kFloat64)));
  // Source: IEEE 754-2019 binary16; 65519 rounds to 65504, 65520 to infinity; 2^-25 ties to even, which is 0.
  const std::pair<const char*, int> halves[] = {{"1", 0x3C00},     {"-2", 0xC000},
                                                {"65504", 0x7BFF}, {"65519", 0x7BFF},
                                                {"65520", 0x7C00}, {"inf", 0x7C00},
                                                {"6e-8", 0x0001},  {"2.98023223876953125e-8", 0x0000},
                                                {"0.1", 0x2E66},   {"6.103515625e-5", 0x0400},
                                                {"-0.0", 0x8000},  {"nan", 0x7E00}};
  for (const auto& [text, pattern] : halves)
    EXPECT_EQ(value_of<std::uint16_t>(text, dtypes::kFloat16), pattern) << text;
  EXPECT_EQ(value_of<std::uint16_t>("1", dtypes::kBFloat16), 0x3F80);
  EXPECT_EQ(value_of<std::uint16_t>("3.3895314e38", dtypes::kBFloat16), 0x7F7F);
  EXPECT_EQ(value_of<std::uint16_t>("0.1", dtypes::kBFloat16), 0x3DCD);
}

}  // namespace
}  // namespace loadstone
