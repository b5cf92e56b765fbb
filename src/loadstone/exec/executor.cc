#include "loadstone/exec/executor.h"

#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone {

namespace {

bool serves_all(const ExecutorEntry& entry, const Plan& plan) {
  return std::all_of(plan.slots.begin(), plan.slots.end(),
                     [&](const Slot& slot) { return entry.serves(slot.shard.device); });
}

/// Why no executor takes the plan: the first device that none serves, or none with the others.
std::string refusal(const Plan& plan) {
  for (const Slot& slot : plan.slots) {
    const Device& device = slot.shard.device;
    std::string why;
    bool served = false;
    for (const ExecutorEntry* entry : all_executors()) {
      if (!entry->serves(device)) continue;
      const std::string reason = entry->available();
      served = served || reason.empty();
      if (!reason.empty()) why = cat("the executor '", entry->name, "' cannot run here: ", reason);
    }
    if (served) continue;
    if (why.empty()) why = "no executor fills this kind of memory";
    return cat(to_string(device), ": ", why);
  }
  return "no executor fills all kinds of memory of this plan at once";
}

}  // namespace

std::unique_ptr<Executor> executor_for(const Plan& plan) {
  for (const ExecutorEntry* entry : all_executors()) {
    if (serves_all(*entry, plan) && entry->available().empty()) return entry->make();
  }
  throw Error(ErrorKind::system, refusal(plan));
}

}  // namespace loadstone
