#include "loadstone/load.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/verify.h"

namespace loadstone {

const char* version() {
  return LOADSTONE_VERSION;
}

Catalog open(const std::vector<std::string>& paths, const DiscoverOptions& options, int threads) {
  return discover(paths, options, ThreadPool(threads));
}

namespace {

/// What is held of one array, with the digests of the bytes as they were read when there are any.
std::vector<HeldShard> held_of(const Placement& placement, std::int32_t array, const ReadDigests* as_read) {
  std::vector<HeldShard> held;
  for (std::size_t s = 0; s < placement.shards.size(); ++s) {
    const PlacedShard& shard = placement.shards[s];
    if (shard.array != array) continue;
    HeldShard entry{shard.shard, shard.data, std::nullopt};
    if (as_read != nullptr) entry.as_read = as_read->of_slot(static_cast<std::int32_t>(s));
    held.push_back(std::move(entry));
  }
  return held;
}

std::int64_t bytes_held(const Placement& placement) {
  std::int64_t total = 0;
  for (const PlacedShard& shard : placement.shards) total += shard.data.nbytes();
  return total;
}

/// What a placement says of an array against what the catalog says. An array of another shape or type is accused at L0
/// on every device and compared no further; "" = they agree.
std::string other_structure(const PlacedArray& held, const ArrayEntry& entry) {
  std::string out;
  if (held.dtype != entry.dtype)
    out = cat("dtype: expected ", to_string(entry.dtype), ", found ", to_string(held.dtype));
  if (!(held.shape == entry.shape)) {
    out += cat(out.empty() ? "" : "; ", "shape: expected ", to_string(entry.shape), ", found ", to_string(held.shape));
  }
  return out;
}

Verdict accuse_structure(const Placement& placement, std::int32_t array, const std::string& detail) {
  Verdict verdict;
  for (const PlacedShard& held : placement.shards) {
    if (held.array != array) continue;
    Accusation accusation;
    accusation.array = placement.arrays[static_cast<std::size_t>(array)].name;
    accusation.level = Level::structure;
    accusation.device = held.shard.device;
    accusation.replica_id = held.shard.replica_id;
    accusation.expected_box = held.shard.box;
    accusation.holds = Accusation::Holds::other_structure;
    accusation.detail = detail;
    verdict.accusations.push_back(std::move(accusation));
    ++verdict.shards;
  }
  verdict.levels.push_back({Level::structure, true, false, detail, 0});
  for (const Level level : {Level::source, Level::device, Level::replicas}) {
    verdict.levels.push_back({level, false, true, "the array is of another shape or type", 0});
  }
  return verdict;
}

/// Verifies every array of the placement with the same options; `options.read` and the manifest entry are filled in.
Verdict verify_all(const Placement& placement, const Catalog& catalog, const ReadDigests* as_read,
                   const Manifest* manifest, ByteSourceFactory* sources, VerifyOptions options) {
  Verdict total;
  for (std::size_t a = 0; a < placement.arrays.size(); ++a) {
    const PlacedArray& array = placement.arrays[a];
    const std::int64_t index = catalog.index_of(array.name);
    const std::string differs = other_structure(array, catalog.arrays[static_cast<std::size_t>(index)]);
    if (!differs.empty()) {
      merge_into(total, accuse_structure(placement, static_cast<std::int32_t>(a), differs));
      continue;
    }
    options.process = placement.process;
    options.read = source_reader(catalog, index, sources);
    options.manifest = nullptr;
    if (manifest != nullptr) {
      options.manifest = manifest->find(array.name);
      // Data sets of one array may be named otherwise than when the manifest was written: the array decides, not the
      // name.
      if (options.manifest == nullptr && manifest->arrays.size() == 1 && placement.arrays.size() == 1) {
        options.manifest = manifest->arrays.data();
      }
      if (options.manifest == nullptr) {
        throw usage_error(cat("the manifest has no array named '", array.name, "'"));
      }
    }
    merge_into(total, verify_array(array.name, array.dtype, array.shape, array.sharding,
                                   held_of(placement, static_cast<std::int32_t>(a), as_read), options));
  }
  return total;
}

}  // namespace

namespace {

/// With a manifest the digests of what the GPUs hold, at the speed of their memory, prove the bytes as read as well;
/// the host need not digest what passes through it. (Only after a failure the source is read again, to name the
/// culprit.)
bool proven_on_gpus(const Plan& plan, const LoadOptions& options) {
  return options.manifest != nullptr && options.verify == VerifyMode::full && !plan.slots.empty() &&
         std::all_of(plan.slots.begin(), plan.slots.end(), [](const Slot& slot) {
           return slot.shard.device.place.kind == PlaceKind::cuda &&
                  cuda::kernels_problem(slot.shard.device.place.ordinal).empty();
         });
}

}  // namespace

LoadResult load(const Catalog& catalog, const std::vector<ArrayRequest>& requests, const LoadOptions& options) {
  const ThreadPool pool(options.threads);
  LoadResult result;
  PlanOptions plan_options = options.plan;
  plan_options.threads = pool.size();
  {
    const TraceScope scope(options.trace, "plan", "plan");
    result.plan = make_plan(catalog, requests, plan_options);
  }

  std::unique_ptr<ReadDigests> as_read;
  // A tight budget may have left room for the staging of fewer workers.
  const ThreadPool readers(std::min(pool.size(), std::max(result.plan.options.threads, 1)));
  ExecOptions exec;
  exec.pool = &readers;
  exec.sources = options.sources;
  exec.buffers = options.buffers;
  exec.cancel = options.cancel;
  exec.progress = options.progress;
  exec.trace = options.trace;
  if (options.verify != VerifyMode::none && !proven_on_gpus(result.plan, options)) {
    as_read = std::make_unique<ReadDigests>(result.plan, pool.size(), 1);
    exec.tap = [&as_read](int worker, const ArrivedBytes& arrived) { as_read->add(worker, arrived); };
  }
  result.placement = executor_for(result.plan)->run(catalog, result.plan, exec);

  if (options.verify != VerifyMode::none) {
    const TraceScope scope(options.trace, "verify", "verify");
    const bool full = options.verify == VerifyMode::full;
    ProgressMeter progress(options.progress, "verify", full ? bytes_held(result.placement) : 0);
    VerifyOptions verify_options;
    verify_options.device = full;
    verify_options.pool = &pool;
    verify_options.cancel = options.cancel;
    verify_options.progress = &progress;
    result.verdict =
        verify_all(result.placement, catalog, as_read.get(), options.manifest, options.sources, verify_options);
    progress.finish();
  }
  return result;
}

Verdict verify(const Placement& placement, const Catalog& catalog, const CheckOptions& options) {
  const ThreadPool pool(options.threads);
  ProgressMeter progress(options.progress, "verify", bytes_held(placement));
  VerifyOptions verify_options;
  verify_options.device = options.device;
  verify_options.replicas = options.replicas;
  verify_options.lanes = options.lanes;
  verify_options.independent_pass = options.manifest == nullptr;
  verify_options.pool = &pool;
  verify_options.cancel = options.cancel;
  verify_options.progress = &progress;
  Verdict verdict = verify_all(placement, catalog, nullptr, options.manifest, options.sources, verify_options);
  progress.finish();
  return verdict;
}

Manifest digest(const Catalog& catalog, const std::vector<std::string>& names, int threads, const ProgressFn& progress,
                CancelToken* cancel, ByteSourceFactory* sources) {
  std::vector<std::int64_t> chosen;
  if (names.empty()) {
    for (std::size_t i = 0; i < catalog.arrays.size(); ++i) chosen.push_back(static_cast<std::int64_t>(i));
  }
  for (const std::string& name : names) chosen.push_back(catalog.index_of(name));

  std::int64_t total_bytes = 0;
  for (const std::int64_t index : chosen) total_bytes += catalog.arrays[static_cast<std::size_t>(index)].nbytes();
  const ThreadPool pool(threads);
  ProgressMeter meter(progress, "digest", total_bytes);
  Manifest manifest;
  for (const std::int64_t index : chosen) {
    const ArrayEntry& array = catalog.arrays[static_cast<std::size_t>(index)];
    manifest.arrays.push_back(digest_array(array.name, array.dtype, array.shape, source_reader(catalog, index, sources),
                                           pool, &meter, cancel));
  }
  meter.finish();
  return manifest;
}

}  // namespace loadstone
