#include "loadstone/plan/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "loadstone/base/text.h"
#include "loadstone/plan/picture_model.h"
#include "loadstone/plan/plan_fixtures.h"
#include "loadstone/plan/svg.h"

namespace loadstone {
namespace {

using testing::golden;

Sharding simulated(const char* mesh, const char* spec, std::int64_t per_process, Uneven uneven = Uneven::error) {
  auto [names, sizes] = parse_mesh(mesh);
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return {Mesh::simulated(names, sizes, testing::ids(count), per_process), parse_spec(spec), uneven};
}

TEST(PictureText, DrawsTwoDimensionsToScale) {
  EXPECT_EQ(draw_text(golden("G7").sharding(), {64, 128}, 40),
            R"((64, 128), mesh x=4,y=2, P(('y', 'x'))
dim 0: 64 over y, x downwards; dim 1:
128 to the right
                     0:128
       +-------------------------------+
   0:8 |              d0               |
       |              p0               |
       +-------------------------------+
  8:16 |              d2               |
       |              p1               |
       +-------------------------------+
 16:24 |              d4               |
       |              p2               |
       +-------------------------------+
 24:32 |              d6               |
       |              p3               |
       +-------------------------------+
 32:40 |              d1               |
       |              p0               |
       +-------------------------------+
 40:48 |              d3               |
       |              p1               |
       +-------------------------------+
 48:56 |              d5               |
       |              p2               |
       +-------------------------------+
 56:64 |              d7               |
       |              p3               |
       +-------------------------------+
)");
}

TEST(PictureText, SlicesFurtherDimensionsAndNamesReplicas) {
  EXPECT_EQ(draw_text(simulated("a=2,b=2,c=2,r=2", "a,b,c", 8), {4, 4, 4}, 60),
            R"((4, 4, 4), mesh a=2,b=2,c=2,r=2, P('a', 'b', 'c')
dim 0: 4 over a downwards; dim 1: 4 over b to the right
dim 2 = 0:2
                 0:2                        2:4
     +--------------------------+--------------------------+
 0:2 |          d0 d1           |          d4 d5           |
     |            p0            |            p0            |
     +--------------------------+--------------------------+
 2:4 |          d8 d9           |         d12 d13          |
     |            p1            |            p1            |
     +--------------------------+--------------------------+
dim 2 = 2:4
                 0:2                        2:4
     +--------------------------+--------------------------+
 0:2 |          d2 d3           |          d6 d7           |
     |            p0            |            p0            |
     +--------------------------+--------------------------+
 2:4 |         d10 d11          |         d14 d15          |
     |            p1            |            p1            |
     +--------------------------+--------------------------+
)");
}

TEST(PictureText, ListsEmptyBoxesAndDrawsOneDimension) {
  EXPECT_EQ(draw_text(simulated("x=8", "x", 2, Uneven::ceil), {9}, 60),
            R"((9,), mesh x=8, P('x'), uneven=ceil
dim 0: 9 over x to the right
       0:2         2:4         4:6         6:8      8:9
  +-----------+-----------+-----------+-----------+-----+
  |    d0     |    d1     |    d2     |    d3     | d4  |
  |    p0     |    p0     |    p1     |    p1     | p2  |
  +-----------+-----------+-----------+-----------+-----+
empty boxes: d5-d7
)");
  EXPECT_EQ(draw_text(simulated("x=2", "x", 2), {0, 4}),
            "(0, 4), mesh x=2, P('x')\nno elements: every device holds an empty box\n");
  EXPECT_NE(draw_text(simulated("x=2", "", 2), {}).find("d0 d1"), std::string::npos) << "a scalar";
}

TEST(PictureText, ListsBoxesThatDoNotFit) {
  const std::string text = draw_text(simulated("x=64", "-,x", 8), {1024, 1024});
  EXPECT_NE(text.find("[:, 496:512]  p3  d31\n  and 32 more boxes\n"), std::string::npos) << text;
  const std::vector<Device> devices = Mesh::simulated({"x"}, {3}, testing::ids(3), 1).devices();
  const Sharding overlap =
      Sharding::from_boxes(devices, {4, 4}, {Box{{0, 0}, {3, 4}}, Box{{2, 0}, {4, 4}}, Box{{0, 0}, {3, 4}}});
  EXPECT_NE(draw_text(overlap, {4, 4}).find("[0:3, :]  p0  d0 d2"), std::string::npos) << draw_text(overlap, {4, 4});
}

Shape random_shape(std::mt19937& random) {
  Shape out;
  for (auto d = random() % 5; d > 0; --d) out.push_back(static_cast<std::int64_t>(random() % 9) * 7);
  return out;
}

/// A mesh of up to 4 axes, each splitting some dimension or none.
Sharding random_sharding(std::mt19937& random, const Shape& shape) {
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(shape.size()));
  std::vector<std::string> names;
  Dims sizes;
  std::int64_t count = 1;
  for (const char* axis : {"a", "b", "c", "d"}) {
    names.emplace_back(axis);
    sizes.push_back(1 + static_cast<std::int64_t>(random() % 4));
    count *= sizes.back();
    const std::size_t d = random() % (entries.size() + 1);
    if (d < entries.size()) entries[d].emplace_back(axis);
  }
  return {Mesh::simulated(names, sizes, testing::ids(count), 1 + static_cast<std::int64_t>(random() % 9)),
          PartitionSpec(entries), Uneven::ceil};
}

/// True if every tag is closed and text holds no bare markup.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&' && xml.compare(i, 5, "&amp;") != 0 && xml.compare(i, 4, "&lt;") != 0 &&
        xml.compare(i, 4, "&gt;") != 0 && xml.compare(i, 6, "&quot;") != 0 && xml.compare(i, 5, "&#39;") != 0) {
      return false;
    }
    if (xml[i] != '<') continue;
    const std::size_t end = xml.find('>', i);
    if (end == std::string::npos || xml.find('<', i + 1) < end) return false;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    i = end;
  }
  return open.empty();
}

TEST(Picture, HoldsForRandomShardings) {
  std::mt19937 random(3);
  for (int round = 0; round < 150; ++round) {
    const Shape shape = random_shape(random);
    const Sharding sharding = random_sharding(random, shape);
    const int width = 40 + static_cast<int>(random() % 80);
    SCOPED_TRACE(cat("round ", round, ", ", planning::subtitle(sharding, shape)));
    for (const std::string& line : split(draw_text(sharding, shape, width), '\n')) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
    }
    const std::string svg = draw_svg(sharding, shape);
    EXPECT_TRUE(well_formed(svg));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

TEST(PictureSvg, NamesEveryDeviceProcessAndAxis) {
  SvgOptions options;
  options.title = "<w> & 'co'\n";
  const std::vector<std::int64_t> rows{0, 10, 30, 64};
  options.row_bounds = &rows;
  const std::string svg = draw_svg(golden("G3").sharding(), {64, 128}, options);
  EXPECT_TRUE(well_formed(svg));
  EXPECT_NE(svg.find("&lt;w&gt; &amp; &#39;co&#39;\\n"), std::string::npos) << svg.substr(0, 800);
  for (int k = 0; k < 8; ++k) EXPECT_NE(svg.find(cat(">d", k, "</text>")), std::string::npos) << k;
  EXPECT_NE(svg.find("dim 0: 64 over x"), std::string::npos);
  EXPECT_NE(svg.find("dim 1: 128 over y"), std::string::npos);
  EXPECT_NE(svg.find("process 3: d6 d7"), std::string::npos);
  EXPECT_NE(svg.find("3 files"), std::string::npos);
  EXPECT_NE(svg.find("[0:32, 96:128]: d3 cpu:3 process 1"), std::string::npos) << "tooltips";
  EXPECT_NE(svg.find("fill=\"#ffffff\"/>"), std::string::npos) << "its own ground";
}

TEST(PictureSvg, StaysSmallOnManyDevices) {
  const std::string each = draw_svg(simulated("x=64,y=64", "x,y", 8), {640000, 4096});
  EXPECT_LT(each.size(), 2'000'000U);
  EXPECT_NE(each.find("496 more processes"), std::string::npos);
  const std::string blocks = draw_svg(simulated("x=256,y=64", "x,y", 8), {1024, 4096});
  EXPECT_LT(blocks.size(), 2'000'000U);
  EXPECT_NE(blocks.find("16,384 boxes are too many to draw"), std::string::npos);
  const std::string slices = draw_svg(simulated("x=2,y=2,z=256", "x,y,z", 8), {64, 64, 256});
  EXPECT_NE(slices.find("and 232 more slices"), std::string::npos);
}

TEST(PictureSvg, KeepsLabelsInsideTheirBoxes) {
  std::mt19937 random(5);
  int set = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> words;
    for (auto n = 1 + random() % 9; n > 0; --n) words.push_back(cat("d", random() % 100000));
    const double w = 1 + static_cast<double>(random() % 200);
    const double h = 1 + static_cast<double>(random() % 200);
    const auto fit = planning::fit(words, w, h);
    if (!fit) continue;
    ++set;
    double longest = 0;
    std::vector<std::string> found;
    for (const std::string& line : fit->lines) {
      longest = std::max(longest, planning::Svg::text_width(line, fit->size));
      for (std::string& word : split(line, ' ')) found.push_back(std::move(word));
    }
    EXPECT_EQ(found, words);
    EXPECT_LE(longest, fit->turned ? h : w);
    EXPECT_LE(fit->size * static_cast<double>(fit->lines.size()), fit->turned ? w : h);
    EXPECT_GE(fit->size, 7);
  }
  EXPECT_GT(set, 1000);
}

TEST(PictureSvg, WritesSuccessiveDevicesAsRanges) {
  const Sharding sharding = simulated("x=2,r=8", "x", 4);
  EXPECT_EQ(planning::device_ranges(sharding, {0, 1, 2, 3, 6, 7, 9}),
            (std::vector<std::string>{"d0-d3", "d6", "d7", "d9"}));
  EXPECT_EQ(planning::device_list(sharding, {0, 1, 2, 5, 7, 9, 11}, 21), "d0-d2 d5 and 3 more");
  EXPECT_EQ(planning::device_list(sharding, {0, 1, 2}, 3), "d0-d2");
}

}  // namespace
}  // namespace loadstone
