#include "loadstone/shard/spec.h"

#include "loadstone/shard/test_helpers.h"

namespace loadstone {
namespace {

using test::expect_usage_error;
using test::mesh_of;
using Entries = std::vector<PartitionSpec::Entry>;

TEST(ParseSpec, ReadsEntries) {
  const auto check = [](const char* text, const Entries& expected, const char* shown) {
    SCOPED_TRACE(text);
    EXPECT_EQ(parse_spec(text).entries(), expected);
    EXPECT_EQ(to_string(parse_spec(text)), shown);
  };
  check("", {}, "P()");
  check("  ", {}, "P()");
  check("x", {{"x"}}, "P('x')");
  check("-", {{}}, "P(None)");
  check("x,-,y+z", {{"x"}, {}, {"y", "z"}}, "P('x', None, ('y', 'z'))");
  check(" x , - , y + z ", {{"x"}, {}, {"y", "z"}}, "P('x', None, ('y', 'z'))");
  check("x,", {{"x"}, {}}, "P('x', None)");
  check(",x", {{}, {"x"}}, "P(None, 'x')");
  check(",", {{}, {}}, "P(None, None)");
  check("reduced_dim,Unreducedx", {{"reduced_dim"}, {"Unreducedx"}}, "P('reduced_dim', 'Unreducedx')");
}

TEST(ParseSpec, RefusesWhatIsNoAxisName) {
  const auto refuses = [](const char* text, const std::vector<std::string>& words) {
    SCOPED_TRACE(text);
    expect_usage_error([&] { parse_spec(text); }, words);
  };
  refuses("((a,b),c)", {"((a,b),c)", "nested tuple"});
  refuses("(y,z)", {"(y,z)", "parentheses", "y+z"});
  refuses("x,)", {"parentheses"});
  refuses("x++y", {"entry 'x++y'", "joins an axis with nothing"});
  refuses("x+-", {"entry 'x+-'"});
  refuses("+", {"entry '+'"});
  refuses("'x'", {"entry ''x''", "not an axis name"});
  refuses("x,None", {"entry 'None'", "x,-,y+z"});
  refuses("x y", {"entry 'x y'"});
}

TEST(ParseSpec, RefusesEntriesThatGiveNoPlacement) {
  for (const char* entry : {"UNCONSTRAINED", "P.UNCONSTRAINED", "unreduced", "unreduced={y}", "reduced", "AUTO"}) {
    SCOPED_TRACE(entry);
    expect_usage_error([&] { parse_spec(cat("x,", entry)); }, {cat("entry '", entry, "'"), "gives no placement"});
    const PartitionSpec spec(Entries{{"x"}, {entry}});
    expect_usage_error([&] { spec.canonical(mesh_of("x=2"), 2); }, {cat("'", entry, "'"), "gives no placement"});
  }
}

TEST(CanonicalSpec, HasOneEntryADimension) {
  const Mesh mesh = mesh_of("x=2,y=2,one=1");
  const auto check = [&](const Entries& entries, int ndim, const Entries& expected) {
    EXPECT_EQ(PartitionSpec(entries).canonical(mesh, ndim).entries(), expected);
  };
  check({}, 2, {{}, {}});
  check({}, 0, {});
  check({{"x"}}, 2, {{"x"}, {}});
  check({{}, {"x"}}, 2, {{}, {"x"}});
  check({{""}, {"x"}}, 2, {{}, {"x"}});
  check({{"one"}}, 1, {{}});
  check({{"x", "one", "y"}}, 1, {{"x", "y"}});
}

TEST(CanonicalSpec, TrailingNoneDoesNotCount) {
  const Mesh mesh = mesh_of("x=2,y=2");
  EXPECT_EQ(parse_spec("x").canonical(mesh, 2), parse_spec("x,-").canonical(mesh, 2));
  EXPECT_FALSE(parse_spec("x").canonical(mesh, 2) == parse_spec("-,x").canonical(mesh, 2));
  EXPECT_FALSE(parse_spec("x+y").canonical(mesh, 1) == parse_spec("y+x").canonical(mesh, 1));
}

TEST(CanonicalSpec, ErrorsNameWhatIsWrong) {
  const auto refuses = [](const char* axes, const char* spec, int ndim, const std::vector<std::string>& words) {
    SCOPED_TRACE(spec);
    expect_usage_error([&] { parse_spec(spec).canonical(mesh_of(axes), ndim); }, words);
  };
  refuses("replica=1,data=1,m=2", "-,m,-,-", 2, {"P(None, 'm', None, None) has 4 entries", "ndim 2"});
  refuses("x=2", "x", 0, {"a scalar takes only the spec P()", "P('x')"});
  refuses("x=2", "-", 0, {"a scalar takes only the spec P()", "P(None)"});
  refuses("x=2,y=2", "x,x", 2, {"mesh axis 'x' is used twice", "P('x', 'x')"});
  refuses("x=2,y=2", "x+x", 1, {"mesh axis 'x' is used twice", "P(('x', 'x'))"});
  refuses("x=1,y=2", "x,x", 2, {"mesh axis 'x' is used twice"});
  refuses("data=2,model=2", "modle", 1, {"unknown mesh axis 'modle'", "axes data, model", "nearest is 'model'"});
  refuses("x=2,y=2", "q", 1, {"unknown mesh axis 'q'", "axes x, y"});
}

}  // namespace
}  // namespace loadstone
