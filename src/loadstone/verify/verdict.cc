#include "loadstone/verify/verdict.h"

#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

constexpr std::size_t kSourceLimit = 5;  // damaged blocks of rows written out; devices always are

std::string box_text(const Accusation& a, const Box& box) {
  return box.ndim() == a.shape.size() ? to_string(box, a.shape) : to_string(box);
}

std::string devices_text(const std::vector<Device>& devices) {
  std::string out;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    out += cat(i == 0 ? "" : i + 1 == devices.size() ? " and " : ", ", to_string(devices[i]));
  }
  return out;
}

std::string holds_text(const Accusation& a) {
  switch (a.holds) {
    case Accusation::Holds::all_zero: return ", holds all zero";
    case Accusation::Holds::unknown: return ", holds unknown bytes";
    case Accusation::Holds::other_structure: return "";
    case Accusation::Holds::other_box: break;
  }
  if (!a.found_box) return ", holds another box";
  std::string out = cat(", holds ", box_text(a, *a.found_box));
  if (!a.found_owners.empty()) {
    out += cat(", which belongs to ", devices_text(a.found_owners));
  }
  return out;
}

std::string difference_text(const Accusation& a) {
  if (!a.first_index) return "";
  std::string out = cat("; first difference at index ", to_string(*a.first_index));
  if (a.byte_offset) out += cat(", byte ", *a.byte_offset);
  if (a.expected_bits.empty() && a.found_bits.empty()) return out;
  if (!a.culprit_known && a.counterpart) {
    return out + cat(": device ", a.device.id, " has ", a.found_bits, ", device ", a.counterpart->id, " has ",
                     a.expected_bits);
  }
  return out + cat(": expected ", a.expected_bits, ", found ", a.found_bits);
}

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case Level::structure: return "L0 structure";
    case Level::source: return "L1 source";
    case Level::device: return "L2 device";
    case Level::replicas: return "L3 replicas";
  }
  return "";
}

bool Verdict::ok() const {
  return accusations.empty() && std::all_of(levels.begin(), levels.end(), [](const LevelResult& l) { return l.ok; });
}

std::string to_string(const Accusation& a) {
  std::string out = cat(to_string(a.level), ": '", printable(a.array), "': ");
  if (!a.device_known) {
    out += box_text(a, a.expected_box);
  } else if (!a.culprit_known && a.counterpart) {
    out += cat(to_string(a.device), ", replica ", a.replica_id, ", and ", to_string(*a.counterpart), " differ on ",
               box_text(a, a.expected_box), " and nothing tells which is right");
  } else {
    out +=
        cat(to_string(a.device), ", replica ", a.replica_id, ": expected ", box_text(a, a.expected_box), holds_text(a));
  }
  out += difference_text(a);
  if (a.culprit_known && a.counterpart) out += cat("; compared with ", to_string(*a.counterpart));
  if (!a.detail.empty()) out += cat(a.device_known ? "; " : ": ", a.detail);
  return out;
}

std::string to_string(const Verdict& verdict) {
  std::string out;
  for (const LevelResult& level : verdict.levels) {
    out += cat(to_string(level.level), ": ", !level.ran ? "not run" : level.ok ? "ok" : "FAILED");
    if (level.bytes > 0) out += cat(", ", format_bytes(level.bytes));
    if (!level.note.empty()) out += cat(" (", level.note, ")");
    out += "\n";
  }
  std::size_t source = 0;
  for (const Accusation& a : verdict.accusations) {
    if (!a.device_known && ++source > kSourceLimit) continue;
    out += to_string(a) + "\n";
  }
  if (source > kSourceLimit) out += cat("and ", source - kSourceLimit, " more parts of the source\n");
  for (const std::string& hint : verdict.hints) out += cat("hint: ", hint, "\n");
  out += cat(verdict.ok() ? "verified " : "NOT verified: ", verdict.shards, verdict.shards == 1 ? " shard" : " shards",
             ", ", format_bytes(verdict.bytes_verified), " in ", format_fixed(verdict.seconds, 3), " s");
  if (!verdict.digest.empty()) out += cat(", digest ", verdict.digest);
  return out + "\n";
}

}  // namespace loadstone
