#include "loadstone/verify/verdict.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "loadstone/verify/test_helpers.h"
#include "loadstone/verify/verdict_json.h"

namespace loadstone {
namespace {

using namespace test;  // NOLINT: short notation for tests

Accusation swapped() {
  Accusation a;
  a.array = "w";
  a.shape = {64, 128};
  a.level = Level::device;
  a.device = {1, 0, {PlaceKind::host, 1}};
  a.expected_box = {{0, 16}, {64, 32}};
  a.holds = Accusation::Holds::other_box;
  a.found_box = Box{{0, 32}, {64, 48}};
  a.found_owners = {{2, 1, {PlaceKind::host, 2}}, {3, 1, {PlaceKind::host, 3}}};
  a.first_index = Dims{0, 16};
  a.byte_offset = 0;
  a.expected_bits = "0x3f800000";
  a.found_bits = "0x40000000";
  return a;
}

// covers: faults F1
TEST(Verdict, TextNamesEveryField) {
  EXPECT_EQ(
      to_string(swapped()),
      "L2 device: 'w': device 1 (cpu:1, process 0), replica 0: expected [:, 16:32], holds [:, 32:48], which "
      "belongs to device 2 (cpu:2, process 1) and device 3 (cpu:3, process 1); first difference at index (0, 16), "
      "byte 0: expected 0x3f800000, found 0x40000000");
  Accusation pair = swapped();
  pair.level = Level::replicas;
  pair.found_box.reset();
  pair.holds = Accusation::Holds::unknown;
  pair.culprit_known = false;
  pair.counterpart = Device{4, 2, {PlaceKind::host, 4}};
  EXPECT_EQ(to_string(pair),
            "L3 replicas: 'w': device 1 (cpu:1, process 0), replica 0, and device 4 (cpu:4, process 2) differ on "
            "[:, 16:32] and nothing tells which is right; first difference at index (0, 16), byte 0: device 1 has "
            "0x40000000, device 4 has 0x3f800000");
  pair.culprit_known = true;
  pair.detail = "devices 4, 5 agree";
  EXPECT_EQ(to_string(pair),
            "L3 replicas: 'w': device 1 (cpu:1, process 0), replica 0: expected [:, 16:32], holds unknown bytes; first "
            "difference at index (0, 16), byte 0: expected 0x3f800000, found 0x40000000; compared with device 4 "
            "(cpu:4, process 2); devices 4, 5 agree");
}

Verdict example() {
  Verdict verdict;
  verdict.levels = {{Level::structure, true, true, "8 buffers", 0},
                    {Level::source, false, true, "no manifest", 0},
                    {Level::device, true, false, "", 32768},
                    {Level::replicas, false, true, "no box has two holders here", 0}};
  verdict.accusations = {swapped()};
  verdict.hints = {"mesh order is not id order"};
  verdict.shards = 8;
  verdict.bytes_verified = 32768;
  verdict.seconds = 0.25;
  return verdict;
}

TEST(Verdict, TextHasALineALevelAndTheAccusations) {
  EXPECT_EQ(to_string(example()),
            "L0 structure: ok (8 buffers)\n"
            "L1 source: not run (no manifest)\n"
            "L2 device: FAILED, 32.8 kB\n"
            "L3 replicas: not run (no box has two holders here)\n" +
                to_string(swapped()) +
                "\nhint: mesh order is not id order\n"
                "NOT verified: 8 shards, 32.8 kB in 0.250 s\n");
  Verdict good = example();
  good.accusations.clear();
  EXPECT_FALSE(good.ok()) << "a failed level is enough";
  good.levels[2].ok = true;
  EXPECT_TRUE(good.ok());
}

TEST(Verdict, ManyDamagedPartsOfTheSourceAreCounted) {
  Verdict verdict;
  for (std::int64_t i = 0; i < 9; ++i) {
    Accusation a;
    a.array = "w";
    a.shape = {64};
    a.level = Level::source;
    a.device_known = false;
    a.expected_box = {{i}, {i + 1}};
    a.detail = "digest: expected 1, found 2";
    verdict.accusations.push_back(a);
  }
  const std::string text = to_string(verdict);
  EXPECT_NE(text.find("L1 source: 'w': [4:5]: digest: expected 1, found 2\nand 4 more parts of the source\n"),
            std::string::npos);
}

TEST(Verdict, JsonHasEveryField) {
  const nlohmann::json out = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(out["ok"], false);
  EXPECT_EQ(out["shards"], 8);
  EXPECT_EQ(out["bytes_verified"], 32768);
  EXPECT_EQ(out["digest"], nullptr);
  EXPECT_EQ(out["hints"][0], "mesh order is not id order");
  EXPECT_EQ(out["levels"][2]["level"], "L2");
  EXPECT_EQ(out["levels"][2]["name"], "device");
  EXPECT_EQ(out["levels"][2]["ok"], false);
  const nlohmann::json& a = out["accusations"][0];
  EXPECT_EQ(a["device"]["place"], "cpu:1");
  EXPECT_EQ(a["expected_box"]["text"], "[:, 16:32]");
  EXPECT_EQ(a["expected_box"]["begin"], (std::vector<int>{0, 16}));
  EXPECT_EQ(a["holds"], "other_box");
  EXPECT_EQ(a["found_box"]["text"], "[:, 32:48]");
  EXPECT_EQ(a["found_owners"][1]["id"], 3);
  EXPECT_EQ(a["first_index"], (std::vector<int>{0, 16}));
  EXPECT_EQ(a["byte_offset"], 0);
  EXPECT_EQ(a["expected_bits"], "0x3f800000");
  EXPECT_EQ(a["counterpart"], nullptr);
  EXPECT_EQ(a["text"], to_string(swapped()));
}

TEST(Verdict, MergesArrayByArray) {
  Verdict total;
  merge_into(total, example());
  Verdict good = example();
  good.accusations.clear();
  good.levels[2].ok = true;
  good.levels[1].ran = true;
  good.levels[1].note = "sum";
  good.digest = "abc";
  merge_into(total, good);
  EXPECT_EQ(total.levels.size(), 4U);
  EXPECT_FALSE(total.levels[2].ok);
  EXPECT_TRUE(total.levels[1].ran);
  EXPECT_EQ(total.levels[2].bytes, 65536);
  EXPECT_EQ(total.shards, 16);
  EXPECT_EQ(total.accusations.size(), 1U);
  EXPECT_EQ(total.hints.size(), 1U);
  EXPECT_EQ(total.digest, "abc");
}

}  // namespace
}  // namespace loadstone
