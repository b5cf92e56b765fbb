#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadstone/exec/executor.h"
#include "loadstone/format/discover.h"
#include "loadstone/plan/plan.h"
#include "loadstone/verify/manifest.h"
#include "loadstone/verify/verdict.h"

/// The front door: from paths to proven shards. Each function is one arrow of
/// paths → Catalog → Plan → Placement → Verdict. See docs/tour.md.
namespace loadstone {

/// The library's version, "0.1.0". Equal to `loadstone --version` and Python's loadstone.__version__.
const char* version();

/// Discovers the data set. See DiscoverOptions; `threads` 0 = available_cores().
Catalog open(const std::vector<std::string>& paths, const DiscoverOptions& options = {}, int threads = 0);

/// How much of a load is proven before it is handed out.
enum class VerifyMode : std::uint8_t {
  none,
  source,  ///< L0, L1, L3 in the process: digests of the bytes as read, no second pass over memory
  full     ///< and L2: every shard read back
};

struct LoadOptions {
  PlanOptions plan;  ///< plan.threads 0 or less = `threads`
  int threads = 0;   ///< 0 = available_cores()
  VerifyMode verify = VerifyMode::none;
  const Manifest* manifest = nullptr;  ///< compared with when verifying
  ByteSourceFactory* sources = nullptr;
  BufferProvider* buffers = nullptr;
  CancelToken* cancel = nullptr;
  ProgressFn progress;
  Trace* trace = nullptr;
};

struct LoadResult {
  Plan plan;
  Placement placement;
  std::optional<Verdict> verdict;  ///< set when LoadOptions::verify asked for one
};

/// Plans and loads. A failed verification is in the verdict, not thrown.
LoadResult load(const Catalog& catalog, const std::vector<ArrayRequest>& requests, const LoadOptions& options = {});

/// Reads any box of an array by the file's own index map, not through the sharding planner. Shares nothing with `load`
/// but the Catalog and the byte source. The reader keeps copies of what it needs.
SourceReader source_reader(const Catalog& catalog, std::int64_t array, ByteSourceFactory* sources = nullptr);

struct CheckOptions {
  bool device = true, replicas = true;
  const Manifest* manifest = nullptr;
  int lanes = 1;
  int threads = 0;
  ByteSourceFactory* sources = nullptr;
  CancelToken* cancel = nullptr;
  ProgressFn progress;
};
/// Verifies what a placement holds against the data set: L0; L1 and L2 against the manifest or, without one, against an
/// independent contiguous pass over the files; L3.
Verdict verify(const Placement& placement, const Catalog& catalog, const CheckOptions& options = {});

/// Digests all arrays of the catalog (or those named) into a manifest.
Manifest digest(const Catalog& catalog, const std::vector<std::string>& names = {}, int threads = 0,
                const ProgressFn& progress = {}, CancelToken* cancel = nullptr, ByteSourceFactory* sources = nullptr);

}  // namespace loadstone
