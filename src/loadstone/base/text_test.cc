#include "loadstone/base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"

namespace loadstone {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Cat, JoinsTextAndIntegers) {
  EXPECT_EQ(cat("a", std::string("b"), std::string_view("c"), 'd', 5, -7, std::uint8_t{200}, true), "abcd5-7200true");
  EXPECT_EQ(cat(), "");
}

TEST(Checked, SaysWhereAResultDoesNotFit) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_EQ(checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(checked_mul(-kMax, 2), std::nullopt);
  EXPECT_EQ(ceil_div(10, 4), 3);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(kMax, 2), std::int64_t{1} << 62);
}

TEST(Text, FormatsBytesInDecimalUnitsWithThreeDigits) {
  const std::vector<std::pair<std::int64_t, std::string>> rows{
      {0, "0 B"},         {999, "999 B"},      {1000, "1.00 kB"},       {9996, "10.0 kB"}, {99960, "100 kB"},
      {999499, "999 kB"}, {999500, "1.00 MB"}, {1500000000, "1.50 GB"}, {kMax, "9223 PB"}};
  for (const auto& [bytes, text] : rows) EXPECT_EQ(format_bytes(bytes), text) << bytes;
  EXPECT_EQ(format_rate(12.34e9), "12.3 GB/s");
  EXPECT_EQ(format_rate(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(format_fixed(-1.25, 1), "-1.2");
}

TEST(Text, FormatsCountsWithCommas) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(-1234), "-1,234");
}

// covers: loading E13
TEST(Text, ParsesSizes) {
  const std::vector<std::pair<std::string, std::int64_t>> rows{
      {"0", 0},       {"17", 17},         {"17B", 17},         {"4kB", 4000},     {"4KB", 4000},
      {"4KiB", 4096}, {"3 MiB", 3 << 20}, {"2GB", 2000000000}, {"1GiB", 1 << 30}, {"1MB", 1000000}};
  for (const auto& [text, bytes] : rows) EXPECT_EQ(parse_bytes(text), bytes) << text;
  for (const std::string bad : {"", "B", "-1", "1.5GB", "1 gb", "0x10", "GB", "9999999999999GB", "1TB", " 1"}) {
    try {
      parse_bytes(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_TRUE(error.message().starts_with(cat("'", bad, "' is not a size")));
    }
  }
}

TEST(Text, ParsesWholeIntegersOnly) {
  std::int64_t value = 0;
  EXPECT_TRUE(parse_int("-42", value));
  EXPECT_EQ(value, -42);
  EXPECT_TRUE(parse_int("9223372036854775807", value));
  EXPECT_EQ(value, kMax);
  for (const std::string_view bad : {"", "1x", " 1", "1 ", "+1", "9223372036854775808", "1e3"}) {
    EXPECT_FALSE(parse_int(bad, value)) << bad;
  }
}

TEST(Text, SplitsAndJoins) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(join({}, ", "), "");
}

// covers: loading E7
TEST(Text, JoinsTheFirstFewAndCountsTheRest) {
  EXPECT_EQ(join_first({"1", "2"}, 5), "1, 2");
  EXPECT_EQ(join_first({"1", "2", "3", "4", "5"}, 5), "1, 2, 3, 4, 5");
  EXPECT_EQ(join_first({"1", "2", "3", "4", "5", "6", "7"}, 5), "1, 2, 3, 4, 5 and 2 more");
}

// covers: loading E17
TEST(Text, FindsTheNearestKnownWord) {
  const std::vector<std::string> known{"--devices", "--mesh", "--verify"};
  EXPECT_EQ(nearest("--device", known), "--devices");
  EXPECT_EQ(nearest("--mseh", known), "--mesh");
  EXPECT_EQ(nearest("--threads", known), "");
  EXPECT_EQ(nearest("x", {}), "");
}

// covers: loading D20
TEST(Text, PrintableNamesBreakNeitherATerminalNorJson) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"plain.npy", "plain.npy"},
      {"grüße-日本-🙂", "grüße-日本-🙂"},
      {"a\x1b[2J", "a\\x1b[2J"},
      {"line\nbreak\ttab\x7f", "line\\nbreak\\x09tab\\x7f"},
      {"latin1 \xe9.npy", "latin1 \\xe9.npy"},
      {"cut \xe6\x97", "cut \\xe6\\x97"},
      {"overlong \xc0\xaf", "overlong \\xc0\\xaf"},
      {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80"},
      {"beyond \xf4\x90\x80\x80", "beyond \\xf4\\x90\\x80\\x80"},
      {"8-bit control \xc2\x9b"
       "2J",
       "8-bit control \\xc2\\x9b"
       "2J"},
      {std::string("nul\0", 4), "nul\\x00"}};
  for (const auto& [text, shown] : rows) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(printable(printable(text)), shown) << "showing twice changes nothing";
  }
}

}  // namespace
}  // namespace loadstone
