#include "loadstone/load.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/dump.h"
#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {
namespace {

constexpr std::size_t kLinesShown = 16;

void add(Arguments& args, Options& o) {
  add_source_options(args, o);
  add_sharding_options(args, o);
  add_plan_options(args, o);
  args.group("What is proven and left behind");
  args.flag_or_value("--verify", "full", o.verify,
                     "prove the shards: digests of the bytes as read, of every shard read back, and of replicas; "
                     "--verify=source leaves the second pass over memory out");
  args.text("--manifest", o.manifest, "FILE", "verify against this manifest (see loadstone digest)");
  args.text("--dump", o.dump, "FILE", "write the whole array: C order, little-endian");
  args.text("--dump-each", o.dump_each, "PATTERN", "write each device's shard: 'out.{device}.bin'");
  args.text("--trace", o.trace, "FILE", "write a timeline for chrome://tracing or ui.perfetto.dev");
  args.group("Options");
}

VerifyMode verify_mode(const Options& o) {
  if (o.verify == "full") return VerifyMode::full;
  if (o.verify == "source") return VerifyMode::source;
  if (o.verify.empty()) return o.manifest ? VerifyMode::full : VerifyMode::none;
  throw usage_error(cat("--verify: expected nothing, =full or =source, found '=", printable(o.verify), "'"));
}

Json json_shards(const Placement& placement) {
  Json out = Json::array();
  for (const PlacedShard& shard : placement.shards) {
    out.push_back({{"array", json_text(placement.arrays[static_cast<std::size_t>(shard.array)].name)},
                   {"device", shard.shard.device.id},
                   {"place", place_name(shard.shard.device)},
                   {"process", shard.shard.device.process},
                   {"position", shard.shard.position},
                   {"replica_id", shard.shard.replica_id},
                   {"index", json_box(shard.shard.box)},
                   {"shape", json_dims(shard.shard.box.shape())},
                   {"bytes", shard.data.nbytes()}});
  }
  return out;
}

Json json_stats(const LoadStats& stats) {
  return {{"seconds", stats.seconds},
          {"bytes_read", stats.bytes_read},
          {"bytes_copied", stats.bytes_copied},
          {"requests", stats.requests},
          {"opens", stats.opens},
          {"files_direct", stats.files_direct},
          {"windows", stats.windows},
          {"peak_staging_bytes", stats.peak_staging_bytes},
          {"decoded_pieces", stats.decoded_pieces},
          {"absent_pieces", stats.absent_pieces},
          {"threads", stats.threads}};
}

void describe(Session& session, const Catalog& catalog, const LoadResult& result) {
  const Placement& placement = result.placement;
  Json arrays = Json::array();
  for (const PlannedArray& planned : result.plan.arrays) {
    const ArrayEntry& entry = catalog.arrays[static_cast<std::size_t>(planned.catalog_index)];
    Json array = json_array(entry);
    Json files = Json::array();
    for (std::int64_t p = 0; p < entry.tiling.num_parts(); ++p) {
      files.push_back(json_text(catalog.files.path(entry.tiling.file_of(p))));
    }
    array["files"] = std::move(files);
    arrays.push_back(std::move(array));
    session.line(array_line(entry));
  }
  session.json["arrays"] = std::move(arrays);
  session.json["shards"] = json_shards(placement);
  session.json["strategy"] = to_string(result.plan.strategy);
  session.json["stats"] = json_stats(placement.stats);

  for (std::size_t s = 0; s < std::min(placement.shards.size(), kLinesShown); ++s) {
    const PlacedShard& shard = placement.shards[s];
    const PlacedArray& array = placement.arrays[static_cast<std::size_t>(shard.array)];
    session.line(cat("  ", place_name(shard.shard.device), "  ",
                     placement.arrays.size() > 1 ? cat(printable(array.name), "  ") : "",
                     to_string(shard.shard.box, array.shape), "  ", format_bytes(shard.data.nbytes()),
                     shard.shard.replica_id > 0 ? cat("  replica ", shard.shard.replica_id) : ""));
  }
  if (placement.shards.size() > kLinesShown) {
    session.line(cat("  and ", placement.shards.size() - kLinesShown, " more"));
  }
  const LoadStats& stats = placement.stats;
  session.line(
      cat("read ", format_bytes(stats.bytes_read), " in ", format_fixed(stats.seconds, 3), " s",
          stats.seconds > 0 ? cat(", ", format_rate(static_cast<double>(stats.bytes_read) / stats.seconds)) : "", " (",
          to_string(result.plan.strategy), ", ", stats.requests, " requests, ", stats.threads, " threads",
          stats.files_direct > 0 ? cat(", ", stats.files_direct, " files past the page cache") : "", ")"));
}

int run(Session& session) {
  const Options& o = session.options;
  // What the command line alone can get wrong comes before any file is touched, and outputs are opened before the load.
  const Placing placing(o);
  LoadOptions options;
  options.plan = plan_options(o);
  options.threads = thread_count(o);
  options.verify = verify_mode(o);
  Dumps::check_patterns(o.dump.value_or(""), o.dump_each.value_or(""), std::max<std::size_t>(o.arrays.size(), 1),
                        placing.num_devices());
  for (const Options::Text* output : {&o.dump, &o.dump_each, &o.trace}) {
    if (*output && (*output)->empty()) throw usage_error("an output needs a file name, found ''");
  }
  std::optional<Manifest> manifest;
  if (o.manifest) manifest = read_manifest(*o.manifest);

  std::optional<Trace> trace;
  if (o.trace) trace.emplace();
  const Catalog catalog = open_catalog(session, trace ? &*trace : nullptr);
  const std::vector<ArrayRequest> asked = requests(o, placing, catalog);
  const Plan plan = make_plan(catalog, asked, options.plan);
  Dumps::check_patterns(o.dump.value_or(""), o.dump_each.value_or(""), plan.arrays.size(), placing.num_devices());
  std::unique_ptr<OutputFile> trace_file;
  if (o.trace) trace_file = std::make_unique<OutputFile>(*o.trace);
  Dumps dumps(o.dump.value_or(""), o.dump_each.value_or(""), catalog, plan);

  options.manifest = manifest ? &*manifest : nullptr;
  options.cancel = session.cancel;
  options.progress = session.progress.function();
  options.trace = trace ? &*trace : nullptr;
  const LoadResult result = load(catalog, asked, options);
  session.progress.clear();

  if (o.explain) {
    const std::string words = explain(catalog, result.plan);
    session.json["explain"] = json_text(words);
    session.text += words;
    if (!session.text.ends_with('\n')) session.text += '\n';
  }
  describe(session, catalog, result);
  if (result.verdict && report_verdict(session, *result.verdict, catalog, result.placement) != kGood)
    return kVerificationFailed;

  throw_if_requested(session.cancel);
  dumps.write(result.placement, session.cancel, session.progress.function());
  if (trace_file) {
    trace_file->write(trace->json());
    trace_file->finish();
    trace_file->commit();
  }
  Json outputs = Json::array();
  for (const std::string& path : dumps.paths()) outputs.push_back(json_text(path));
  session.json["outputs"] = std::move(outputs);
  return kGood;
}

}  // namespace

extern const Verb load_verb;
const Verb load_verb{"load", "Load the arrays onto the devices and, if asked, prove what they hold",
                     "  loadstone load shards/ --mesh x=2,y=4 --spec x,y --verify\n"
                     "  loadstone load 'shards/*.npy' --dump whole.bin\n"
                     "  loadstone load shards/ --devices 0,1,2,3 --dump-each 'out.{device}.bin' --json\n"
                     "  loadstone load raw/ --raw --dtype '>f4' --row-shape 3 --memory-budget 2GiB\n",
                     add, run};

}  // namespace loadstone::cli
