#include "loadstone/base/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "loadstone/base/progress.h"

namespace loadstone {
namespace {

TEST(Trace, WritesChromeTraceEvents) {
  Trace trace;
  {
    TraceScope outer(&trace, "read", "read", 3);
    outer.arg("file", "a\"b\\c\n\xff");
    outer.arg("bytes", "42");
    TraceScope none(nullptr, "x", "y");
    none.arg("k", "v");
  }
  ASSERT_EQ(trace.size(), 1U);
  const auto json = nlohmann::json::parse(trace.json());
  const auto& event = json["traceEvents"][0];
  EXPECT_EQ(event["ph"], "X");
  EXPECT_EQ(event["name"], "read");
  EXPECT_EQ(event["cat"], "read");
  EXPECT_EQ(event["tid"], 3);
  EXPECT_EQ(event["args"]["bytes"], "42");
  EXPECT_EQ(event["args"]["file"], "a\"b\\c\\n\\xff");
  EXPECT_GE(event["dur"].get<double>(), 0);
  EXPECT_EQ(nlohmann::json::parse(Trace().json())["traceEvents"].size(), 0U);
}

// covers: loading E14
TEST(ProgressMeter, ReportsNowAndThenAndOnceAtTheEnd) {
  std::vector<ProgressUpdate> updates;
  ProgressMeter meter([&](const ProgressUpdate& update) { updates.push_back(update); }, "load", 8000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) meter.add(2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(updates.size(), 20U) << "about ten times a second";
  meter.finish();
  ASSERT_FALSE(updates.empty());
  EXPECT_EQ(updates.back().done_bytes, 8000);
  EXPECT_EQ(updates.back().total_bytes, 8000);
  EXPECT_EQ(updates.back().stage, "load");
  ProgressMeter silent({}, "x", 0);
  silent.add(3);
  silent.finish();
  EXPECT_EQ(silent.done_bytes(), 3);
}

}  // namespace
}  // namespace loadstone
