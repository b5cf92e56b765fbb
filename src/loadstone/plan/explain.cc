#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/plan/describe.h"
#include "loadstone/plan/plan.h"
#include "loadstone/shard/process_view.h"

namespace loadstone {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kArrays = 12;
constexpr std::size_t kShards = 16;
constexpr std::size_t kReads = 20;
constexpr std::int64_t kMeshLimit = 4096;

std::string and_more(std::size_t all, std::size_t shown) {
  return all > shown ? cat("  and ", format_count(static_cast<std::int64_t>(all - shown)), " more\n") : "";
}

std::string quoted(const PlannedArray& array) {
  return cat("'", printable(array.name), "'");
}

std::string arrays_text(const Plan& plan) {
  std::string out = "arrays\n";
  for (std::size_t i = 0; i < plan.arrays.size() && i < kArrays; ++i) {
    const PlannedArray& array = plan.arrays[i];
    out += cat("  ", quoted(array), " ", to_string(array.dtype), " ", to_string(array.shape), ", ",
               planning::describe(array.sharding), "\n", "      whole files ",
               array.uniform_fast_path ? "taken: " : "not taken: ", array.path_reason, "\n");
  }
  return out + and_more(plan.arrays.size(), kArrays);
}

std::string shards_text(const Plan& plan) {
  const bool several = plan.arrays.size() > 1;
  Rows rows{{"device", "place", "replica", "box", "bytes"}};
  if (several) rows[0].insert(rows[0].begin(), "array");
  for (std::size_t i = 0; i < plan.slots.size() && i < kShards; ++i) {
    const Slot& slot = plan.slots[i];
    const PlannedArray& array = plan.arrays[static_cast<std::size_t>(slot.array)];
    rows.push_back({cat(slot.shard.device.id), place_name(slot.shard.device), cat("r", slot.shard.replica_id),
                    to_string(slot.shard.box, array.shape), format_count(slot.nbytes)});
    if (several) rows.back().insert(rows.back().begin(), quoted(array));
  }
  if (plan.slots.empty()) return "shards\n  none on this process\n";
  return "shards\n" + planning::table(rows, "  ", {several ? 5U : 4U}) + and_more(plan.slots.size(), kShards);
}

std::string devices_of(const Plan& plan, const Read& read) {
  std::vector<std::string> ids;
  for (const Target& target : read.targets) {
    ids.push_back(cat(plan.slots[static_cast<std::size_t>(target.slot)].shard.device.id));
  }
  return ids.size() > 12 ? join_first(ids, 12) : join(ids, " ");
}

std::string reads_text(const Plan& plan) {
  const bool several = plan.arrays.size() > 1;
  Rows rows{{"box", "bytes", "to devices"}};
  if (several) rows[0].insert(rows[0].begin(), "array");
  for (std::size_t i = 0; i < plan.reads.size() && i < kReads; ++i) {
    const Read& read = plan.reads[i];
    const PlannedArray& array = plan.arrays[static_cast<std::size_t>(read.array)];
    rows.push_back({to_string(read.box, array.shape), format_count(array.dtype.nbytes(read.box.num_elems())),
                    devices_of(plan, read)});
    if (several) rows.back().insert(rows.back().begin(), quoted(array));
  }
  if (plan.reads.empty()) return "reads\n  none\n";
  return "reads\n" + planning::table(rows, "  ", {several ? 2U : 1U}) + and_more(plan.reads.size(), kReads);
}

std::string totals_text(const PlanTotals& totals) {
  Rows rows;
  const auto bytes = [&](const char* what, std::int64_t value) {
    rows.push_back({what, format_bytes(value), cat(format_count(value), value == 1 ? " byte" : " bytes")});
  };
  bytes("needed", totals.bytes_needed);
  bytes("placed", totals.bytes_placed);
  bytes("read", totals.bytes_read);
  bytes("over-read", totals.over_read_bytes);
  bytes("read twice or more", totals.duplicate_bytes);
  if (totals.exchanged_bytes > 0) bytes("exchanged", totals.exchanged_bytes);
  bytes("copied in the process", totals.copied_bytes);
  bytes("staging", totals.staging_bytes);
  bytes("peak host memory", totals.peak_host_bytes);
  if (totals.peak_device_bytes > 0) bytes("peak on one device", totals.peak_device_bytes);
  rows.push_back({"pieces", format_count(totals.pieces)});
  rows.push_back({"requests", format_count(totals.requests)});
  rows.push_back({"predicted", planning::format_seconds(totals.predicted_seconds)});
  return "totals\n" + planning::table(rows, "  ", {1, 2});
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string out = notes.empty() ? "" : "notes\n";
  for (const std::string& note : notes) out += cat("  ", note, "\n");
  return out;
}

std::string considered_text(const Plan& plan) {
  Rows rows{{"", "strategy", "bytes read", "requests", "peak host bytes", "predicted", "reason"}};
  for (const Considered& one : plan.considered) {
    rows.push_back({one.chosen ? "*" : "", std::string(to_string(one.strategy)), format_count(one.totals.bytes_read),
                    format_count(one.totals.requests), format_count(one.totals.peak_host_bytes),
                    planning::format_seconds(one.totals.predicted_seconds), one.reason});
  }
  return "strategies\n" + planning::table(rows, "  ", {2, 3, 4, 5});
}

/// Bytes that other processes need when one process reads an array and sends; nullopt on a mesh too large to walk.
std::optional<std::int64_t> bytes_sent_by(std::int32_t reader, const PlannedArray& array) {
  if (array.sharding.num_devices() > kMeshLimit) return std::nullopt;
  std::map<std::int32_t, std::vector<Box>> held;
  for (Shard& shard : array.sharding.all_shards(array.shape)) {
    if (shard.device.process != reader) held[shard.device.process].push_back(std::move(shard.box));
  }
  std::int64_t bytes = 0;
  for (auto& [process, boxes] : held) {
    for (const Box& box : merge_boxes(std::move(boxes))) bytes += array.dtype.nbytes(box.num_elems());
  }
  return bytes;
}

std::string one_reader_text(const Plan& plan) {
  std::int64_t read = 0;
  std::int64_t sent = 0;
  for (const PlannedArray& array : plan.arrays) {
    const auto bytes = bytes_sent_by(plan.process, array);
    if (!bytes) return "";
    read += array.dtype.nbytes(num_elems(array.shape));
    sent += *bytes;
  }
  return cat("  for comparison, process ", plan.process, " reading everything and sending: reads ", format_count(read),
             " bytes, sends ", format_count(sent), " to other processes, holds up to ",
             format_count(read + plan.totals.peak_host_bytes), " in host memory\n");
}

std::string pattern_text(const ReadPattern& exact, const ReadPattern& pattern) {
  std::string out = cat(format_count(exact.num_reads()), exact.num_reads() == 1 ? " run of " : " runs of ",
                        format_count(exact.run_bytes), " bytes at byte ", exact.offset_bytes);
  if (!exact.counts.empty()) out += cat(", strides ", to_string(exact.strides_bytes));
  if (!pattern.over_reads) return out + (exact.num_reads() == 1 ? ", read as it lies" : ", read as they lie");
  return out + cat(", merged into ", format_count(pattern.num_reads()),
                   pattern.num_reads() == 1 ? " read of " : " reads of ", format_count(pattern.run_bytes), " bytes (",
                   format_count(pattern.bytes_read() - pattern.needed_bytes), " over-read)");
}

std::string coalescing_text(const Catalog& catalog, const Plan& plan) {
  if (plan.reads.empty()) return "";
  std::string out = "first piece of each read\n";
  for (std::size_t i = 0; i < plan.reads.size() && i < kReads; ++i) {
    const Read& read = plan.reads[i];
    const PlannedArray& array = plan.arrays[static_cast<std::size_t>(read.array)];
    std::string text = "nothing to read";
    for_each_piece_read(catalog, plan, read, [&](const PieceRead& part) {
      if (part.piece.absent) {
        text = "absent, filled with the fill value";
      } else if (part.piece.encoding >= 0) {
        text = cat("encoded, ", format_count(part.piece.stored_bytes), " bytes read and decoded whole");
      } else {
        text = pattern_text(exact_pattern(part.piece, part.box, array.dtype),
                            read_pattern(part.piece, part.box, array.dtype, plan.options.cost));
      }
      return false;
    });
    out += cat("  ", quoted(array), " ", to_string(read.box, array.shape), ": ", text, "\n");
  }
  return out + and_more(plan.reads.size(), kReads);
}

std::string paths_text(const Plan& plan) {
  std::string out = "whole files\n";
  for (std::size_t i = 0; i < plan.arrays.size() && i < kArrays; ++i) {
    const PlannedArray& array = plan.arrays[i];
    out += cat("  ", quoted(array), ": ", array.uniform_fast_path ? "taken: " : "not taken: ", array.path_reason, "\n");
  }
  return out + and_more(plan.arrays.size(), kArrays);
}

}  // namespace

std::string to_string(const Plan& plan) {
  return cat("plan of process ", plan.process, ": strategy ", to_string(plan.strategy), "\n", arrays_text(plan),
             shards_text(plan), reads_text(plan), totals_text(plan.totals), notes_text(plan.notes));
}

std::string explain(const Catalog& catalog, const Plan& plan) {
  return cat(considered_text(plan), one_reader_text(plan), coalescing_text(catalog, plan), paths_text(plan));
}

}  // namespace loadstone
