// Whose bytes does an accused device hold?
#include <algorithm>
#include <set>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/verify/check.h"

namespace loadstone::detail {

namespace {

constexpr std::int64_t kProbeElems = 64;

/// A few short runs at the beginning, middle and end of a shard of this shape. They reject nearly all boxes that are
/// not the one. None for packed types, where they could cut a byte.
std::vector<Box> probes_of(const Shape& shape, DType dtype) {
  if (!dtype.whole_bytes()) return {};
  std::vector<Box> out;
  for (const int at : {0, 1, 2}) {
    Box probe{shape, shape};
    for (int d = 0; d < shape.size(); ++d) {
      const std::int64_t length = d + 1 == shape.size() ? std::min(kProbeElems, shape[d]) : 1;
      probe.begin[d] = (shape[d] - length) * at / 2;
      probe.end[d] = probe.begin[d] + length;
    }
    if (out.empty() || out.back() != probe) out.push_back(std::move(probe));
  }
  return out;
}

std::string probe_bytes(const std::vector<Box>& probes, DType dtype, const Fetch& bytes, Scratch& scratch) {
  std::string out;
  for (const Box& probe : probes) {
    const std::byte* data = bytes(probe, scratch.b());
    out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(dtype.nbytes(probe.num_elems())));
  }
  return out;
}

struct Candidate {
  Box box;
  std::string probe;
};

class OwnerFinder {
 public:
  OwnerFinder(Check& check, Level level, const std::vector<std::size_t>& suspects)
      : check_(check), level_(level), scratch_(static_cast<std::size_t>(check.pool.size())) {
    std::set<Shape> shapes;
    for (const std::size_t i : suspects) shapes.insert(check.holders[i].shard.box.shape());
    for (const Shape& shape : shapes) candidates_[shape];
    for (const HeldBox& held : check.all_boxes()) {
      if (held.box.empty()) continue;
      const auto it = candidates_.find(held.box.shape());
      if (it != candidates_.end()) it->second.push_back({held.box, {}});
    }
    if (!check.options.read) return;
    for (auto& [shape, candidates] : candidates_) {
      const std::vector<Box> probes = probes_of(shape, check.dtype);
      check.pool.parallel_for(
          std::ssize(candidates),
          [&, &all = candidates](std::int64_t i, int worker) {
            Candidate& candidate = all[static_cast<std::size_t>(i)];
            candidate.probe = probe_bytes(probes, check.dtype, source_of(check, candidate.box), scratch(worker));
          },
          check.options.cancel);
    }
  }

  /// nullopt when the bytes are right after all.
  std::optional<Accusation> find(const Holder& holder, int worker) {
    Accusation out = check_.accuse(holder.shard, level_);
    const bool by_source = static_cast<bool>(check_.options.read);
    if (by_source && !compare_with_source(holder, out, scratch(worker))) return std::nullopt;
    const std::optional<Box> box = by_source ? box_by_bytes(holder, scratch(worker)) : box_by_digest(holder);
    if (!by_source) compare_with_replica(holder, out, scratch(worker));
    const bool zero = all_zero(holder.shard.box.shape(), check_.dtype, memory_of(check_, holder), scratch(worker));
    if (box) {
      out.holds = Accusation::Holds::other_box;
      out.found_box = box;
      if (zero) out.detail = "the bytes are all zero";
    } else {
      out.holds = zero ? Accusation::Holds::all_zero : Accusation::Holds::unknown;
    }
    return out;
  }

 private:
  Scratch& scratch(int worker) { return scratch_[static_cast<std::size_t>(worker)]; }

  bool compare_with_source(const Holder& holder, Accusation& out, Scratch& scratch) const {
    const Box& box = holder.shard.box;
    const auto difference =
        first_difference(box.shape(), check_.dtype, source_of(check_, box), memory_of(check_, holder), scratch);
    if (difference) set_difference(out, *difference, holder, check_.dtype);
    return difference.has_value();
  }

  std::optional<Box> box_by_bytes(const Holder& holder, Scratch& scratch) const {
    const Box& own = holder.shard.box;
    const Fetch memory = memory_of(check_, holder);
    const std::string probe = probe_bytes(probes_of(own.shape(), check_.dtype), check_.dtype, memory, scratch);
    for (const Candidate& candidate : candidates_.at(own.shape())) {
      if (candidate.box == own || candidate.probe != probe) continue;
      if (!first_difference(own.shape(), check_.dtype, source_of(check_, candidate.box), memory, scratch)) {
        return candidate.box;
      }
    }
    return std::nullopt;
  }

  /// Without a source: the digest of the bytes, placed at another box, is the one that box was read with.
  std::optional<Box> box_by_digest(const Holder& holder) const {
    for (const Candidate& candidate : candidates_.at(holder.shard.box.shape())) {
      const auto known = check_.by_box.find(candidate.box);
      if (candidate.box == holder.shard.box || known == check_.by_box.end()) continue;
      const auto as_read = check_.as_read(known->second);
      const Box& own = holder.shard.box;
      if (as_read && check_.same(check_.rule.tile(candidate.box, holder.at(own), holder.strides_bytes), *as_read)) {
        return candidate.box;
      }
    }
    return std::nullopt;
  }

  void compare_with_replica(const Holder& holder, Accusation& out, Scratch& scratch) const {
    const auto as_read = check_.as_read(check_.by_box.at(holder.shard.box));
    for (const std::size_t i : check_.by_box.at(holder.shard.box)) {
      const Holder& other = check_.holders[i];
      if (&other == &holder || !other.digest || !as_read || !check_.same(*other.digest, *as_read)) continue;
      const auto difference = first_difference(holder.shard.box.shape(), check_.dtype, memory_of(check_, other),
                                               memory_of(check_, holder), scratch);
      if (!difference) continue;
      set_difference(out, *difference, holder, check_.dtype);
      out.counterpart = other.shard.device;
      return;
    }
  }

  Check& check_;
  Level level_;
  std::vector<Scratch> scratch_;
  std::map<Shape, std::vector<Candidate>> candidates_;
};

}  // namespace

std::int64_t accuse_by_content(Check& check, Level level, const std::vector<std::size_t>& suspects) {
  if (suspects.empty()) return 0;
  OwnerFinder finder(check, level, suspects);
  std::vector<std::optional<Accusation>> found(suspects.size());
  check.pool.parallel_for(
      std::ssize(suspects),
      [&](std::int64_t i, int worker) {
        const auto k = static_cast<std::size_t>(i);
        found[k] = finder.find(check.holders[suspects[k]], worker);
      },
      check.options.cancel);
  std::int64_t accused = 0;
  for (std::size_t k = 0; k < suspects.size(); ++k) {
    if (!found[k]) continue;
    Holder& holder = check.holders[suspects[k]];
    holder.accused = true;
    holder.found_box = found[k]->found_box;
    if (found[k]->found_box) found[k]->found_owners = check.owners_of(*found[k]->found_box);
    check.verdict.accusations.push_back(*std::move(found[k]));
    ++accused;
  }
  return accused;
}

}  // namespace loadstone::detail
