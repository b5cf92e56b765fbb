#include "loadstone/format/pattern.h"

#include <gtest/gtest.h>

#include "tests/fakes/format_files.h"

namespace loadstone {
namespace {

TEST(MatchComponent, FollowsGlob) {
  struct Row {
    const char* pattern;
    const char* name;
    bool matches;
  };
  for (const Row& row : std::vector<Row>{{"*", "a", true},
                                         {"*", ".a", false},
                                         {".*", ".a", true},
                                         {"?a", ".a", false},
                                         {"[.]a", ".a", false},
                                         {"*.npy", "s.npy", true},
                                         {"*.npy", "s.npy.tmp", false},
                                         {"s?.npy", "s10.npy", false},
                                         {"s??.npy", "s10.npy", true},
                                         {"s?", "s\xc3\xa9", true},
                                         {"s?", "s\xff", true},
                                         {"s[0-9]", "s5", true},
                                         {"s[!0-9]", "s5", false},
                                         {"s[^0-9]", "sx", true},
                                         {"s[]x]", "s]", true},
                                         {"s[a-]", "s-", true},
                                         {"s[[:digit:]x]", "s7", true},
                                         {"s[[:alpha:]]", "s7", false},
                                         {"s[à-ü]", "sé", true},
                                         {"s[1", "s[1", true},
                                         {"a\\*b", "a*b", true},
                                         {"a\\*b", "axb", false},
                                         {"*a*b*", "xxaxxbxx", true},
                                         {"*a*b*", "xxbxxaxx", false},
                                         {"", "", true},
                                         {"", "a", false},
                                         {"a**b", "ab", true}}) {
    EXPECT_EQ(match_component(row.pattern, row.name), row.matches) << row.pattern << " " << row.name;
  }
}

TEST(MatchComponent, ManyStarsEnd) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(match_component(pattern + "b", std::string(250, 'a')));
}

// covers: loading D14, D20
TEST(ExpandPattern, WalksFoldersAndSortsNaturally) {
  const TempFolder folder;
  for (const char* name : {"r1/s10.npy", "r1/s9.npy", "r2/s1.npy", "r2/.hidden.npy", "r[1]/x.npy", "b\xff/s0.npy"}) {
    folder.put(name, "x");
  }
  EXPECT_EQ(expand_pattern(folder.at("r?/*.npy"), false),
            (std::vector<std::string>{folder.at("r1/s9.npy"), folder.at("r1/s10.npy"), folder.at("r2/s1.npy")}));
  EXPECT_EQ(expand_pattern(folder.at("b*/s*"), false), (std::vector<std::string>{folder.at("b\xff/s0.npy")}));
  EXPECT_EQ(expand_pattern(folder.at("r[1]/*"), false).size(), 2U);
  EXPECT_EQ(expand_pattern(folder.at("r[1]/*"), true), (std::vector<std::string>{folder.at("r[1]/x.npy")}));
  EXPECT_TRUE(expand_pattern(folder.at("none*/x"), false).empty());
  EXPECT_EQ(expand_pattern(folder.at("r?/"), false).size(), 2U);
}

}  // namespace
}  // namespace loadstone
