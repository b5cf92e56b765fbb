#include "loadstone/plan/plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "loadstone/base/error.h"
#include "loadstone/plan/plan_fixtures.h"
#include "loadstone/plan/plan_json.h"
#include "loadstone/shard/process_view.h"

namespace loadstone {
namespace {

using testing::exact_cost;
using testing::Example;
using testing::golden;
using testing::golden_examples;
using testing::merging_cost;
using testing::one_file;
using testing::stack;

PlanOptions options_of(Strategy strategy, std::int32_t process = 0) {
  PlanOptions out;
  out.strategy = strategy;
  out.process = process;
  out.cost = exact_cost();
  return out;
}

/// kind of the Error that make_plan throws, and its message.
std::pair<ErrorKind, std::string> refused(const Catalog& catalog, const std::vector<ArrayRequest>& requests,
                                          const PlanOptions& options) {
  try {
    make_plan(catalog, requests, options);
  } catch (const Error& error) {
    return {error.kind(), error.message()};
  }
  return {ErrorKind::internal, "not refused"};
}

/// (offset, run bytes, runs) of every piece of every Read.
using RunList = std::vector<std::array<std::int64_t, 3>>;
RunList runs_of(const Catalog& catalog, const Plan& plan) {
  RunList out;
  for (const Read& read : plan.reads) {
    for_each_piece_read(catalog, plan, read, [&](const PieceRead& part) {
      const ReadPattern p = exact_pattern(part.piece, part.box, catalog.arrays[0].dtype);
      out.push_back({p.offset_bytes, p.run_bytes, p.num_reads()});
      return true;
    });
  }
  return out;
}
RunList process_runs(const std::string& name, std::int32_t process) {
  const Example example = golden(name);
  return runs_of(example.catalog(), example.plan(options_of(Strategy::per_process, process)));
}
/// The one entry of a device's own pipeline, devices k on process k / 2.
std::array<std::int64_t, 3> device_runs(const std::string& name, std::int64_t device) {
  const Example example = golden(name);
  const Plan plan =
      example.plan(options_of(Strategy::per_device, static_cast<std::int32_t>(device / example.devices_per_process)));
  const RunList runs = runs_of(example.catalog(), plan);
  for (std::size_t i = 0; i < plan.reads.size(); ++i) {
    const auto slot = static_cast<std::size_t>(plan.reads[i].targets.at(0).slot);
    if (plan.slots[slot].shard.device.id == device) return runs.at(i);
  }
  return {-1, -1, -1};
}

// covers: sharding G1, G2, G3, G4, G5, G6, G7, G13, G14, R8, R9
TEST(Plan, ReadsTheByteRunsOfTheGoldenExamples) {
  using Run = std::array<std::int64_t, 3>;
  for (std::int64_t k = 0; k < 8; ++k) EXPECT_EQ(device_runs("G1", k), (Run{64 * k, 64, 64})) << "G1 d" << k;
  for (std::int32_t p = 0; p < 4; ++p) EXPECT_EQ(process_runs("G1", p), (RunList{{128 * p, 128, 64}})) << "G1 p" << p;
  EXPECT_EQ(process_runs("G2", 0), (RunList{{256, 64, 64}, {448, 64, 64}}));
  EXPECT_EQ(process_runs("G2", 1), (RunList{{64, 128, 64}}));
  EXPECT_EQ(process_runs("G2", 2), (RunList{{192, 64, 64}, {384, 64, 64}}));
  EXPECT_EQ(process_runs("G2", 3), (RunList{{0, 64, 64}, {320, 64, 64}}));
  EXPECT_EQ(device_runs("G3", 3), (Run{384, 128, 32}));
  for (std::int32_t p = 0; p < 4; ++p) {
    EXPECT_EQ(process_runs("G4", p), (RunList{{8192 * p, 8192, 1}})) << "G4 p" << p;
    EXPECT_EQ(process_runs("G5", p), (RunList{{128 * p, 128, 64}})) << "G5 p" << p;
    EXPECT_EQ(process_runs("G6", p), (RunList{{8192 * p, 8192, 1}})) << "G6 p" << p;
  }
  EXPECT_EQ(device_runs("G6", 5), (Run{5 * 4096, 4096, 1}));
  EXPECT_EQ(process_runs("G7", 0), (RunList{{0, 4096, 1}, {16384, 4096, 1}}));
  EXPECT_EQ(process_runs("G13", 0), (RunList{{0, 192, 1}, {384, 192, 1}}));
  EXPECT_EQ(process_runs("G13", 2), process_runs("G13", 0));
  EXPECT_EQ(process_runs("G13", 1), (RunList{{192, 192, 1}, {576, 192, 1}}));
  EXPECT_EQ(device_runs("G14", 1), (Run{192, 6, 8}));
}

/// Bytes read by all processes together.
std::int64_t bytes_read(const Example& example, Strategy strategy, const CostModel& cost) {
  std::int64_t sum = 0;
  for (std::int32_t p = 0; p < example.processes; ++p) {
    PlanOptions options = options_of(strategy, p);
    options.cost = cost;
    const Plan plan = example.plan(options);
    sum += plan.totals.bytes_read;
    EXPECT_EQ(plan.totals.bytes_read,
              plan.totals.bytes_needed + plan.totals.over_read_bytes + plan.totals.duplicate_bytes);
  }
  return sum;
}

// covers: sharding R6, R7, R8, R9, R13, R14, R15, G8, G9, G10, G11, G12, G15, G16
TEST(Plan, ReadsTheBytesOfTheTableOfOptions) {
  const std::map<std::string, std::array<std::int64_t, 3>> table = {
      {"G1", {131072, 32768, 32768}},   {"G2", {131072, 32768, 32768}},   {"G3", {131072, 32768, 32768}},
      {"G4", {131072, 32768, 32768}},   {"G5", {131072, 32768, 32768}},   {"G6", {131072, 32768, 32768}},
      {"G7", {131072, 32768, 32768}},   {"G8", {131072, 262144, 131072}}, {"G9", {131072, 131072, 131072}},
      {"G10", {131072, 131072, 65536}}, {"G11", {3072, 768, 768}},        {"G12", {768, 768, 384}},
      {"G13", {3072, 1536, 1536}},      {"G14", {1536, 384, 384}},        {"G15", {2048, 1024, 1024}},
      {"G16", {1024, 512, 512}}};
  for (const Example& example : golden_examples()) {
    const auto expected = table.at(example.name);
    for (const CostModel& cost : {exact_cost(), CostModel{}}) {
      EXPECT_EQ(bytes_read(example, Strategy::global, cost), expected[0]) << example.name;
      EXPECT_EQ(bytes_read(example, Strategy::per_device, cost), expected[1]) << example.name;
      EXPECT_EQ(bytes_read(example, Strategy::per_process, cost), expected[2]) << example.name;
    }
  }
}

// covers: sharding R9
TEST(Plan, ReadsEachNeededByteOnceWithoutAnExtraOne) {
  for (const Example& example : golden_examples()) {
    for (std::int32_t p = 0; p < example.processes; ++p) {
      const PlanTotals totals = example.plan(options_of(Strategy::per_process, p)).totals;
      EXPECT_EQ(totals.bytes_read, totals.bytes_needed) << example.name << " p" << p;
      EXPECT_EQ(totals.over_read_bytes, 0) << example.name;
      EXPECT_EQ(totals.duplicate_bytes, 0) << example.name;
    }
  }
}

TEST(Plan, MakesOneReadOfTheColumnsOfOneProcess) {
  const Sharding sharding(Mesh::of_cpus({"x"}, {8}), parse_spec("-,x"));
  const Plan plan = make_plan(one_file({64, 128}, dtypes::kFloat32), {{0, sharding}}, {});
  ASSERT_EQ(plan.reads.size(), 1U);
  EXPECT_EQ(plan.strategy, Strategy::per_process);
  EXPECT_EQ(to_string(plan.reads[0].box), "[0:64, 0:128]");
  EXPECT_EQ(plan.reads[0].targets.size(), 8U);
  EXPECT_EQ(plan.totals.requests, 1);
  EXPECT_EQ(plan.totals.over_read_bytes, 0);
  EXPECT_TRUE(plan.copies.empty());
}

// covers: sharding R13
TEST(Plan, ReadsReplicasOnceAndFansOut) {
  const Plan plan = golden("G8").plan(options_of(Strategy::per_process));
  ASSERT_EQ(plan.reads.size(), 1U);
  ASSERT_EQ(plan.reads[0].targets.size(), 2U);
  EXPECT_EQ(plan.reads[0].targets[0].box, plan.reads[0].targets[1].box);
  EXPECT_EQ(plan.totals.bytes_read, 32768);
  EXPECT_EQ(plan.totals.bytes_placed, 65536);
  EXPECT_EQ(plan.totals.copied_bytes, 32768);
  EXPECT_EQ(plan.notes,
            (std::vector<std::string>{"fully replicated: each of 8 devices holds everything; processes that "
                                      "load the same: {0,1,2,3}"}));
}

// covers: sharding R14, R15, R22
TEST(Plan, NamesReplicationFactorAndLoadGroups) {
  const auto note = [](const char* name) { return golden(name).plan(options_of(Strategy::per_process)).notes.at(0); };
  EXPECT_EQ(note("G9"), "replication factor 4: each box is on 4 devices; processes that load the same: {0,1,2,3}");
  EXPECT_EQ(note("G10"), "replication factor 4: each box is on 4 devices; processes that load the same: {0,1}, {2,3}");
  EXPECT_EQ(note("G12"), "replication factor 2: each box is on 2 devices; processes that load the same: {0}, {1}");
  EXPECT_EQ(note("G13"), "replication factor 2: each box is on 2 devices; processes that load the same: {0,2}, {1,3}");
  EXPECT_EQ(note("G15"), "replication factor 2: each box is on 2 devices; processes that load the same: {0,2}, {1,3}");
}

std::string reason(const Plan& plan, Strategy strategy) {
  for (const Considered& one : plan.considered) {
    if (one.strategy == strategy) return cat(one.chosen ? "* " : "", one.reason);
  }
  return "not considered";
}

// covers: sharding R12
TEST(Plan, ChoosesByBytesReadThenMemoryThenPerProcess) {
  Example g1 = golden("G1");
  const Plan tie = g1.plan(options_of(Strategy::automatic));
  EXPECT_EQ(tie.strategy, Strategy::per_process);
  EXPECT_EQ(reason(tie, Strategy::per_process), "* reads the least: 8,192 bytes in 64 requests");
  EXPECT_EQ(reason(tie, Strategy::global), "reads 32,768 bytes, 4.00 times as many as per_process");

  const Plan replicas = golden("G8").plan(options_of(Strategy::automatic));
  EXPECT_EQ(replicas.strategy, Strategy::per_process);
  EXPECT_EQ(reason(replicas, Strategy::per_device), "reads 65,536 bytes, 2.00 times as many as per_process");
  EXPECT_EQ(reason(replicas, Strategy::global),
            "reads as many bytes as per_process and at full windows needs as much memory; ties go to per_process");

  // Two devices of a process share one region; reads smaller than a window are no merit of per_device.
  const Plan rows = golden("G6").plan(options_of(Strategy::automatic));
  EXPECT_EQ(rows.strategy, Strategy::per_process);
  EXPECT_LT(rows.considered[1].totals.peak_host_bytes, rows.totals.peak_host_bytes);
  EXPECT_EQ(reason(rows, Strategy::per_device),
            "reads as many bytes as per_process and at full windows needs as much memory; ties go to per_process");

  // Where gaps are cheap, two spans over nearly the whole file cost more than the file.
  PlanOptions warm = options_of(Strategy::automatic);
  warm.cost = merging_cost();
  const Plan whole = golden("G2").plan(warm);
  EXPECT_EQ(whole.strategy, Strategy::global);
  EXPECT_EQ(whole.totals.bytes_read, 32768);
}

// covers: sharding R6, R7
TEST(Plan, ComparesStrategiesAndStatesTheWaste) {
  const Example g1 = golden("G1");
  const Plan plan = g1.plan(options_of(Strategy::global));
  EXPECT_EQ(plan.notes.at(0), "global reads everything: 32,768 bytes for 8,192 needed, waste ratio 4.00");
  const std::string text = explain(g1.catalog(), plan);
  EXPECT_NE(text.find("*  global"), std::string::npos) << text;
  EXPECT_NE(text.find("per_device"), std::string::npos);
  EXPECT_NE(text.find("reading everything and sending: reads 32,768 bytes, sends 24,576 to other processes"),
            std::string::npos)
      << text;
}

TEST(Plan, RefusesWhatItCannotDo) {
  const Example g1 = golden("G1");
  const auto usage = [&](PlanOptions options) {
    const auto [kind, message] = refused(g1.catalog(), {{0, g1.sharding()}}, options);
    EXPECT_EQ(kind, ErrorKind::usage) << message;
    return message;
  };
  EXPECT_NE(usage(options_of(Strategy::exchange)).find("'exchange' needs an engine"), std::string::npos);
  PlanOptions options;
  options.over_decompose = 0;
  EXPECT_EQ(usage(options), "over-decompose must be >= 1, found 0");
  options = {};
  options.threads = 0;
  EXPECT_EQ(usage(options), "threads must be >= 1, found 0");
  options = {};
  options.window_bytes = 0;
  EXPECT_EQ(usage(options), "window bytes must be >= 1, found 0");
  options = {};
  options.process = -1;
  EXPECT_EQ(usage(options), "process must be >= 0, found -1");
  options = {};
  options.memory_budget = -5;
  EXPECT_EQ(usage(options), "memory budget must be >= 0 bytes, found -5");
  options = {};
  options.cost.bytes_per_second = 0;
  EXPECT_NE(usage(options).find("cost model"), std::string::npos);
  EXPECT_EQ(refused(g1.catalog(), {{3, g1.sharding()}}, {}).second, "array 3 is not in the catalog, which has 1");

  const auto [kind, message] = refused(one_file({8, 3}, dtypes::kFloat32), {{0, golden("G3").sharding()}}, {});
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_NE(message.find("'w'"), std::string::npos) << message;
  EXPECT_NE(message.find("dimension 1 (size 3)"), std::string::npos) << message;

  const Sharding halves(Mesh::of_cpus({"x"}, {2}), parse_spec("-,x"));
  const auto cut = refused(one_file({4, 6}, DType{0, 4, 1}), {{0, halves}}, {});
  EXPECT_EQ(cut.first, ErrorKind::usage);
  EXPECT_NE(cut.second.find("'w': box"), std::string::npos) << cut.second;
  EXPECT_NE(cut.second.find("cuts inside a byte"), std::string::npos) << cut.second;
}

TEST(Plan, NamesStrategies) {
  for (const Strategy s :
       {Strategy::automatic, Strategy::global, Strategy::per_device, Strategy::per_process, Strategy::exchange}) {
    EXPECT_EQ(parse_strategy(to_string(s)), s);
  }
  EXPECT_EQ(parse_strategy("automatic"), Strategy::automatic);
  try {
    parse_strategy("per_proces");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(error.message(),
              "unknown strategy 'per_proces', did you mean per_process; known: auto, global, per_device, per_process, "
              "exchange");
  }
}

// covers: loading P7, P8
TEST(Plan, SaysWhetherEachTileIsOneWholeFile) {
  const auto path = [](const Catalog& catalog, const Sharding& sharding) {
    const Plan plan = make_plan(catalog, {{0, sharding}}, {});
    return cat(plan.arrays[0].uniform_fast_path ? "taken: " : "not taken: ", plan.arrays[0].path_reason);
  };
  const auto rows = [](std::int64_t n) { return Sharding::row_tiles(Mesh::of_cpus({"x"}, {n}).devices()); };
  const Sharding mesh4(Mesh::of_cpus({"x"}, {4}), parse_spec("x"));
  const Catalog even = stack({5, 5, 5, 5}, {3}, dtypes::kFloat32, 80);
  EXPECT_EQ(path(even, rows(4)), "taken: each of 4 tiles is one whole file of 5 rows");
  EXPECT_EQ(path(even, mesh4), "taken: each of 4 tiles is one whole file of 5 rows");
  EXPECT_EQ(path(even, rows(2)), "not taken: 4 files for 2 tiles");
  EXPECT_EQ(path(stack({5, 4, 5, 6}, {3}, dtypes::kFloat32), rows(4)), "not taken: the files differ in rows");
  EXPECT_EQ(path(even, Sharding(Mesh::of_cpus({"x", "y"}, {4, 3}), parse_spec("x,y"))),
            "not taken: dimension 1 is split");
  EXPECT_EQ(path(one_file({}, dtypes::kFloat32), Sharding::single()), "not taken: a scalar has no rows");
  EXPECT_EQ(path(stack({0, 0}, {3}, dtypes::kFloat32), rows(2)), "not taken: there are no rows");

  // Each tile is then one open and one sequential range, and the bytes are those of the general path.
  const Plan plan = make_plan(even, {{0, rows(4)}}, options_of(Strategy::per_device));
  EXPECT_EQ(runs_of(even, plan), (RunList{{80, 60, 1}, {80, 60, 1}, {80, 60, 1}, {80, 60, 1}}));
  EXPECT_EQ(plan.totals.pieces, 4);
}

// covers: loading R1
TEST(Plan, FindsTheFilesOfATileByItsRows) {
  const Catalog catalog = stack({3, 0, 4, 3}, {}, dtypes::kFloat32);
  const Sharding sharding = Sharding::row_tiles(Mesh::of_cpus({"x"}, {4}).devices());
  const Plan plan = make_plan(catalog, {{0, sharding}}, options_of(Strategy::per_device));
  ASSERT_EQ(plan.reads.size(), 4U);
  std::vector<std::string> parts;
  for_each_piece_read(catalog, plan, plan.reads[2], [&](const PieceRead& part) {
    const Box rows = relative_to(part.box, part.piece.box.begin);
    parts.push_back(cat("file ", part.piece.part, " rows ", to_string(rows), " to ", part.box.begin[0] - 6));
    return true;
  });
  EXPECT_EQ(parts, (std::vector<std::string>{"file 2 rows [3:4] to 0", "file 3 rows [0:2] to 1"}));
  int seen = 0;
  for_each_piece_read(catalog, plan, plan.reads[2], [&](const PieceRead&) { return ++seen < 1; });
  EXPECT_EQ(seen, 1) << "stops when fn returns false";
}

// covers: loading P11
TEST(Plan, OverDecompositionNeverMovesAShard) {
  PlanOptions options = options_of(Strategy::automatic);
  const Plan once = golden("G3").plan(options);
  options.over_decompose = 7;
  const Plan often = golden("G3").plan(options);
  EXPECT_EQ(once.slots, often.slots);
  EXPECT_EQ(once.reads, often.reads);
}

// covers: loading P12
TEST(Plan, KeepsTheDeclaredMapAtAnySize) {
  const Mesh mesh = Mesh::of_cpus({"x"}, {4});
  for (const std::int64_t total : {1, 2, 3, 4, 5, 1000, 1 << 20}) {
    const Plan plan = make_plan(stack({total}, {}, dtypes::kInt8), {{0, Sharding::row_tiles(mesh.devices())}}, {});
    const std::int64_t tile = (total + 3) / 4;
    for (std::int64_t k = 0; k < 4; ++k) {
      const Box& box = plan.slots[static_cast<std::size_t>(k)].shard.box;
      EXPECT_EQ(box.begin[0], std::min(total, k * tile)) << total;
      EXPECT_EQ(box.end[0], std::min(total, (k + 1) * tile)) << total;
    }
  }
}

TEST(Plan, NotesIdleDevicesAndUnevenTiles) {
  const Sharding sharding(Mesh::of_cpus({"x"}, {8}), parse_spec("x"), Uneven::ceil);
  const Plan plan = make_plan(stack({9}, {2}, dtypes::kFloat32), {{0, sharding}}, options_of(Strategy::automatic));
  EXPECT_EQ(plan.slots.size(), 8U);
  EXPECT_EQ(plan.notes, (std::vector<std::string>{
                            "3 idle devices hold empty boxes: 5 (cpu:5), 6 (cpu:6), 7 (cpu:7)",
                            "uneven tiles: dimension 0 (size 9) over 8: tiles of 2, the last of 1, 3 empty"}));
}

// covers: loading P13, sharding R29
TEST(Plan, HoldsNothingWhereThereIsNothing) {
  const Plan empty = make_plan(stack({0, 0}, {3}, dtypes::kFloat32),
                               {{0, Sharding::row_tiles(Mesh::of_cpus({"x"}, {2}).devices())}}, {});
  EXPECT_EQ(empty.slots.size(), 2U);
  EXPECT_TRUE(empty.reads.empty());
  EXPECT_EQ(to_string(empty.slots[1].shard.box.shape()), "(0, 3)");
  EXPECT_EQ(empty.totals, PlanTotals{});

  const Plan elsewhere = golden("G1").plan(options_of(Strategy::automatic, 9));
  EXPECT_TRUE(elsewhere.slots.empty());
  EXPECT_TRUE(elsewhere.reads.empty());
  EXPECT_EQ(elsewhere.notes, std::vector<std::string>{"process 9 has no device in the mesh and loads nothing"});

  const Plan scalar = make_plan(one_file({}, dtypes::kFloat64), {{0, Sharding::single()}}, {});
  EXPECT_EQ(scalar.totals.bytes_read, 8);
  EXPECT_EQ(scalar.slots.at(0).nbytes, 8);
}

TEST(Plan, FingerprintsWhatMustAgree) {
  const auto print = [](const Sharding& sharding, const Catalog& catalog, Strategy strategy = Strategy::automatic,
                        std::int32_t process = 0) {
    return fingerprint(catalog, make_plan(catalog, {{0, sharding}}, options_of(strategy, process)));
  };
  const Catalog catalog = one_file({64, 128}, dtypes::kFloat32);
  const Example g9 = golden("G9");
  const std::string base = print(g9.sharding(), catalog);
  EXPECT_EQ(base.size(), 32U);
  EXPECT_EQ(print(Sharding(g9.sharding().mesh(), parse_spec("row,-")), catalog), base) << "P('row', None)";
  EXPECT_EQ(print(g9.sharding(), catalog, Strategy::automatic, 3), base) << "the same on every process";
  EXPECT_NE(print(golden("G10").sharding(), catalog), base) << "device order";
  EXPECT_NE(print(Sharding(g9.sharding().mesh(), parse_spec("-,row")), catalog), base) << "spec";
  EXPECT_NE(print(Sharding(g9.sharding().mesh(), parse_spec("row"), Uneven::ceil), catalog), base) << "uneven";
  EXPECT_NE(print(g9.sharding(), catalog, Strategy::global), base) << "strategy";
  EXPECT_NE(print(g9.sharding(), one_file({64, 128}, dtypes::kInt32)), base) << "dtype";
  EXPECT_NE(print(g9.sharding(), one_file({64, 64}, dtypes::kFloat32)), base) << "shape";
  const Catalog halves = stack({32, 32}, {128}, dtypes::kFloat32);
  const Catalog uneven = stack({30, 34}, {128}, dtypes::kFloat32);
  EXPECT_NE(print(g9.sharding(), halves), base) << "files";
  EXPECT_NE(print(g9.sharding(), halves), print(g9.sharding(), uneven)) << "row table";
}

TEST(Plan, WritesItselfAsJson) {
  const Example g1 = golden("G1");
  const Plan plan = g1.plan(options_of(Strategy::per_process, 1));
  const auto json = nlohmann::json::parse(to_json(g1.catalog(), plan));
  EXPECT_EQ(json.at("strategy"), "per_process");
  EXPECT_EQ(json.at("process"), 1);
  EXPECT_EQ(json.at("arrays").at(0).at("shape"), nlohmann::json({64, 128}));
  EXPECT_EQ(json.at("slots").at(0),
            nlohmann::json::parse(R"({"array":0,"device":2,"place":"cpu:2","process":1,"replica_id":0,
                                      "box":[[0,64],[32,48]],"bytes":4096})"));
  EXPECT_EQ(json.at("num_reads"), 1);
  EXPECT_EQ(json.at("reads").at(0).at("box"), nlohmann::json::parse("[[0,64],[32,64]]"));
  EXPECT_EQ(json.at("reads").at(0).at("targets").size(), 2U);
  EXPECT_EQ(json.at("totals").at("bytes_read"), 8192);
  for (const auto& [key, value] : json.at("totals").items()) EXPECT_TRUE(value.is_number_integer()) << key;
  EXPECT_EQ(json.at("considered").size(), 3U);
  EXPECT_EQ(json.at("fingerprint"), fingerprint(g1.catalog(), plan));
}

}  // namespace
}  // namespace loadstone
