#include "loadstone/format/names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "loadstone/base/text.h"
#include "loadstone/format/pattern.h"
#include "loadstone/format/stems.h"
#include "tests/fakes/format_files.h"

namespace loadstone {
namespace {

using Names = std::vector<std::string>;

Names ordered(const Names& names, const OrderRules& rules = {}) {
  Names out;
  for (const std::size_t i : order_files(names, rules).order) out.push_back(names[i]);
  return out;
}

OrderRules gaps() {
  OrderRules rules;
  rules.allow_gaps = true;
  return rules;
}

OrderRules list(bool keep_order = false) {
  OrderRules rules;
  rules.explicit_list = true;
  rules.keep_order = keep_order;
  return rules;
}

Error refusal(const Names& names, const OrderRules& rules = {}) {
  return error_of([&] { order_files(names, rules); });
}

TEST(NaturalLess, ComparesDigitRunsByValue) {
  const Names sorted{"",
                     "s",
                     "s-1",
                     "s0",
                     "s00",
                     "s1",
                     "s01",
                     "s2",
                     "s2a",
                     "s10",
                     "s99999999999999999999",
                     "s100000000000000000000",
                     "sa",
                     "t1",
                     "\xc3\xa9"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      if (sorted[i] == "s00" || sorted[j] == "s00" || sorted[i] == "s01" || sorted[j] == "s01") continue;
      EXPECT_EQ(natural_less(sorted[i], sorted[j]), i < j) << sorted[i] << " " << sorted[j];
    }
  }
  EXPECT_NE(natural_less("s0", "s00"), natural_less("s00", "s0"));
}

TEST(NaturalLess, IsAStrictTotalOrder) {
  std::mt19937 random(7);
  Names names;
  for (int i = 0; i < 60; ++i) {
    std::string name;
    for (std::size_t n = random() % 5; n > 0; --n) name.push_back("019a-"[random() % 5]);
    names.push_back(name);
  }
  for (const std::string& a : names) {
    for (const std::string& b : names) {
      EXPECT_EQ(natural_less(a, b) || natural_less(b, a), a != b);
      for (const std::string& c : names) {
        if (natural_less(a, b) && natural_less(b, c)) {
          EXPECT_TRUE(natural_less(a, c)) << a << " " << b << " " << c;
        }
      }
    }
  }
}

// covers: loading D12, F1
TEST(OrderFiles, TenThousandAndTwoShardsStackByNumber) {
  Names names;
  for (int i = 0; i < 10002; ++i) {
    const std::string digits = std::to_string(i);
    names.push_back(cat("d/shard_", std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0'), digits, ".npy"));
  }
  Names shuffled = names;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
  EXPECT_EQ(ordered(shuffled), names);
  std::sort(shuffled.begin(), shuffled.end());
  ASSERT_EQ(shuffled[1001], "d/shard_10000.npy");
  EXPECT_EQ(ordered(shuffled), names);
  Names holed = names;
  holed.erase(holed.begin() + 9998);
  expect_error(refusal(holed), ErrorKind::data, {"'shard_9998.npy'"});
}

// covers: loading D12
TEST(OrderFiles, MixedWidthsSortByNumberAndOneNumberOccursOnce) {
  EXPECT_EQ(ordered({"s10", "s9", "s8", "s1", "s2", "s3", "s4", "s5", "s6", "s7"}).back(), "s10");
  expect_error(refusal({"s1.npy", "s01.npy", "s2.npy"}), ErrorKind::data, {"same number 1", "s1.npy", "s01.npy"});
  expect_error(refusal({"s1.npy", "s01.npy"}), ErrorKind::data, {"same number 1"});
}

// covers: loading D3
TEST(OrderFiles, HolesAreNamed) {
  struct Row {
    Names names;
    std::vector<std::string> words;
  };
  for (const Row& row : std::vector<Row>{
           {{"s0.npy", "s2.npy"}, {"'s1.npy'", "--allow-gaps"}},
           {{"d/shard_0000.npy", "d/shard_0003.npy"}, {"'d/shard_0001.npy'", "'shard_0001.npy', 'shard_0002.npy'"}},
           {{"s0", "s9"}, {"'s1', 's2', 's3', 's4', 's5' and 3 more"}},
           {{"s3.npy", "s4.npy"}, {"'s0.npy', 's1.npy', 's2.npy'"}},
           {{"step_100", "step_200"}, {"'step_0'", "and 194 more"}},
           {{"s08", "s10"}, {"'s00'", "'s04' and 4 more"}},
           {{"s998.npy", "s1000.npy"}, {"'s0.npy'", "and 994 more"}},
           {{"0.npy", "000000000000000007.npy"}, {"'000000000000000001.npy'"}}}) {
    SCOPED_TRACE(join(row.names, " "));
    const Error error = refusal(row.names);
    expect_error(error, ErrorKind::data, row.words);
    EXPECT_FALSE(error.facts().file.empty());
    const FileOrder order = order_files(row.names, gaps());
    EXPECT_EQ(order.order.size(), row.names.size());
    ASSERT_EQ(order.notes.size(), 1U);
    EXPECT_NE(order.notes[0].find("missing"), std::string::npos);
  }
}

// covers: loading D13
TEST(OrderFiles, NumberingStartsAtZeroOrOne) {
  EXPECT_EQ(ordered({"s1", "s0", "s2"}), (Names{"s0", "s1", "s2"}));
  EXPECT_EQ(ordered({"s3", "s1", "s2"}), (Names{"s1", "s2", "s3"}));
  EXPECT_EQ(refusal({"s2", "s3"}).kind(), ErrorKind::data);
}

// covers: loading D13
TEST(OrderFiles, TotalsInNamesAreChecked) {
  const FileOrder zero = order_files({"m-1-of-2", "m-0-of-2"}, {});
  EXPECT_TRUE(zero.complete_by_name);
  EXPECT_EQ(zero.order, (std::vector<std::size_t>{1, 0}));
  EXPECT_TRUE(
      order_files({"m-00001-of-00003.npy", "m-00003-of-00003.npy", "m-00002-of-00003.npy"}, {}).complete_by_name);
  EXPECT_TRUE(order_files({"m-00001-of-00001.npy"}, {}).complete_by_name);
  struct Row {
    Names names;
    std::vector<std::string> words;
  };
  for (const Row& row :
       std::vector<Row>{{{"p-0-of-4", "p-1-of-4", "p-3-of-4"}, {"'p-2-of-4'", "expected 4", "found 3"}},
                        {{"p-1-of-4", "p-2-of-4", "p-3-of-4"}, {"'p-0-of-4'", "'p-4-of-4'", "expected 4"}},
                        {{"p-00002-of-00004.npy"}, {"expected 4", "found 1"}},
                        {{"p-0-of-2", "p-1-of-3"}, {"of 2", "of 3"}},
                        {{"p-0-of-2", "p-1-of-2", "p-2-of-2"}, {"number 2 does not fit a set of 2"}},
                        {{"p-1-of-2", "p-2-of-2", "p-3-of-2"}, {"number 3"}},
                        {{"p-1-of-2", "p-01-of-2"}, {"same number 1"}},
                        {{"p-0-of-1000000000000", "p-1-of-1000000000000"}, {"'p-2-of-1000000000000'", "more"}}}) {
    SCOPED_TRACE(join(row.names, " "));
    expect_error(refusal(row.names), ErrorKind::data, row.words);
  }
  const FileOrder holed = order_files({"p-0-of-4", "p-3-of-4"}, gaps());
  EXPECT_FALSE(holed.complete_by_name);
  EXPECT_NE(holed.notes.at(0).find("'p-1-of-4'"), std::string::npos);
}

// covers: loading D14, F3
TEST(OrderFiles, StraysAreNamedThemselves) {
  for (const std::string stray : {"shard_0000_backup.npy", "shard_0000.npy.bak", "labels.npy", "shard_0000 (1).npy",
                                  "shard_1x.npy", "shard_.npy"}) {
    SCOPED_TRACE(stray);
    const Error error = refusal({"d/shard_0000.npy", "d/shard_0001.npy", "d/" + stray});
    expect_error(error, ErrorKind::data, {cat("'d/", stray, "'"), "stray"});
    EXPECT_EQ(error.facts().file, "d/" + stray);
    EXPECT_EQ(error.message().find("shard_0002"), std::string::npos);
  }
  expect_error(refusal({"shard_0000.npy", "shard_0000_backup.npy"}), ErrorKind::data,
               {"'shard_0000_backup.npy'", "stray", "'shard_0000.npy'"});
  EXPECT_EQ(ordered({"bold.npy", "b.npy", "a_old.npy", "a.npy"}).size(), 4U);
}

// covers: loading D14
TEST(OrderFiles, TwoStemsAreAUsageError) {
  const Error error = refusal({"d/train_0.npy", "d/train_1.npy", "d/test_0.npy", "d/test_1.npy"});
  expect_error(error, ErrorKind::usage, {"'d/train_*.npy'", "'d/test_*.npy'", "--files-from"});
  expect_error(refusal({"t0_c0", "t0_c1", "t1_c0", "t1_c1"}), ErrorKind::usage, {"two numbered sets"});
  expect_error(refusal({"a-0-of-2", "a-1-of-2", "b-0-of-1"}), ErrorKind::usage, {"'a-*-of-2'", "'b-*-of-1'"});
  expect_error(refusal({"r1/s0", "r1/s1", "r2/s0", "r2/s1"}), ErrorKind::usage, {"'r1/s*'", "'r2/s*'"});
}

// covers: loading D14
TEST(OrderFiles, OtherSetsSortNaturallyWithoutAHoleCheck) {
  EXPECT_EQ(ordered({"c.npy", "a.npy", "b.npy"}), (Names{"a.npy", "b.npy", "c.npy"}));
  EXPECT_EQ(ordered({"10 z.npy", "2 x.npy", "0 y.npy"}), (Names{"0 y.npy", "2 x.npy", "10 z.npy"}));
  EXPECT_EQ(ordered({"r10/s0", "r2/s0", "r1/s0"}), (Names{"r1/s0", "r2/s0", "r10/s0"}));
  EXPECT_EQ(ordered({"only_7.npy"}), (Names{"only_7.npy"}));
  EXPECT_EQ(ordered({"b\xff.npy", "a\xff.npy"}), (Names{"a\xff.npy", "b\xff.npy"}));
  EXPECT_TRUE(ordered({}).empty());
}

TEST(OrderFiles, TheRunThatVariesIsTheNumber) {
  const FileOrder order = order_files({"2024_v2_s1.f32", "2024_v2_s0.f32"}, {});
  EXPECT_EQ(order.order, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(order.stem, "2024_v2_s");
  EXPECT_EQ(ordered({"s1_v2.npy", "s10_v2.npy", "s9_v2.npy"}, gaps()), (Names{"s1_v2.npy", "s9_v2.npy", "s10_v2.npy"}));
  EXPECT_EQ(ordered({"x/s1", "y/s0", "x/s2"}), (Names{"y/s0", "x/s1", "x/s2"}));
}

// covers: loading D12
TEST(OrderFiles, AnExplicitListKeepsItsOrder) {
  EXPECT_EQ(ordered({"c", "a", "b"}, list()), (Names{"c", "a", "b"}));
  EXPECT_EQ(ordered({"s3", "s7", "s20"}, list()), (Names{"s3", "s7", "s20"}));
  const Names shell{"d/shard_0", "d/shard_1", "d/shard_10", "d/shard_11", "d/shard_2"};
  const Error error = refusal(shell, list());
  expect_error(error, ErrorKind::usage, {"'d/shard_2'", "'d/shard_11'", "quote the pattern", "--keep-order"});
  EXPECT_EQ(ordered(shell, list(true)), shell);
  expect_error(refusal({"s1", "s1"}, list()), ErrorKind::usage, {"listed twice"});
  expect_error(refusal({"s1", "s01"}, list()), ErrorKind::usage, {"listed twice"});
  expect_error(refusal({"a", "b", "a"}, list()), ErrorKind::usage, {"'a'", "listed twice"});
  expect_error(refusal({"s0", "s0_backup", "s1", "s10", "s2"}, list()), ErrorKind::usage, {"ascending", "'s2'"});
  EXPECT_EQ(ordered({"r1/s0", "r1/s1", "r2/s0", "r2/s1"}, list()), (Names{"r1/s0", "r1/s1", "r2/s0", "r2/s1"}));
  expect_error(refusal({"r1/s0", "r1/s1", "r2/s1", "r2/s0"}, list()), ErrorKind::usage, {"'r2/s0'", "ascending"});
}

// covers: loading D13
TEST(OrderFiles, AnExplicitListMayBePartOfANamedTotal) {
  const FileOrder part = order_files({"p-2-of-4"}, list());
  EXPECT_FALSE(part.complete_by_name);
  EXPECT_NE(part.notes.at(0).find("1 of the 4"), std::string::npos);
  EXPECT_TRUE(order_files({"p-1-of-2", "p-2-of-2"}, list()).complete_by_name);
}

TEST(ReadingsOf, TakesANameApartAroundEachNumber) {
  const auto readings = readings_of("model-00003-of-00010.npy");
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].prefix, "model-");
  EXPECT_EQ(readings[0].number, 3);
  EXPECT_EQ(readings[0].suffix, "-of-00010.npy");
  EXPECT_EQ(readings[0].of_total, 10);
  EXPECT_EQ(readings_of("a1b22c").size(), 2U);
  EXPECT_TRUE(readings_of("9999999999999999999.npy").empty());
}

}  // namespace
}  // namespace loadstone
