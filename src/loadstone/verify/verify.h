#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadstone/exec/placement.h"
#include "loadstone/verify/manifest.h"
#include "loadstone/verify/pd61.h"
#include "loadstone/verify/verdict.h"

namespace loadstone {

/// Digests of the bytes as they were read, by slot, collected by the executor's tap.
class ReadDigests {
 public:
  ReadDigests(const Plan& plan, int workers, int lanes);
  /// The tap: digests one arrived window. Each worker adds to its own sums.
  void add(int worker, const ArrivedBytes& window);
  Pd61Value of_slot(std::int32_t slot) const;

 private:
  std::vector<Pd61> rules_;  // one an array
  std::vector<std::int32_t> array_of_slot_;
  std::vector<std::vector<Pd61Value>> by_worker_;
};

/// What is held on one device, wherever it came from.
struct HeldShard {
  Shard shard;                       ///< what the sharding says this device should hold
  View data;                         ///< what it holds
  std::optional<Pd61Value> as_read;  ///< digest of the bytes as they were read, when known (one lane or two)
};

struct VerifyOptions {
  bool source = true;    ///< L1
  bool device = true;    ///< L2: a pass over the shards
  bool replicas = true;  ///< L3
  int lanes = 1;
  std::optional<std::int32_t> process;      ///< whose devices must all be there; none = the processes of `held`
  const ManifestArray* manifest = nullptr;  ///< for L1/L2 against a stored digest
  SourceReader read;              ///< the source, for naming culprits and for L1 without a manifest; may be empty
  bool independent_pass = false;  ///< read the source again in plain contiguous slices and compare sums
  const ThreadPool* pool = nullptr;
  CancelToken* cancel = nullptr;
  ProgressMeter* progress = nullptr;
};

/// Checks what the devices hold of one array against what the sharding says (levels of faults section 1) and, only on
/// accusation, finds whose bytes they hold. Processes are those of the devices' labels. Never throws for a mismatch:
/// that is a Verdict.
Verdict verify_array(const std::string& name, DType dtype, const Shape& shape, const Sharding& sharding,
                     const std::vector<HeldShard>& held, const VerifyOptions& options);

/// Adds another array's verdict to this one.
void merge_into(Verdict& total, const Verdict& one);

}  // namespace loadstone
