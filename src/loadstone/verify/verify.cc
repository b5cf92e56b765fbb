#include "loadstone/verify/verify.h"

#include <algorithm>
#include <chrono>

#include "loadstone/base/cat.h"
#include "loadstone/verify/check.h"
#include "loadstone/verify/device_digest.h"
#include "loadstone/verify/slices.h"

namespace loadstone {

ReadDigests::ReadDigests(const Plan& plan, int workers, int lanes) {
  for (const PlannedArray& array : plan.arrays) rules_.emplace_back(array.shape, array.dtype, Pd61Keys{}, lanes);
  for (const Slot& slot : plan.slots) array_of_slot_.push_back(slot.array);
  by_worker_.resize(static_cast<std::size_t>(workers));
  for (auto& sums : by_worker_) sums.resize(plan.slots.size());
}

void ReadDigests::add(int worker, const ArrivedBytes& window) {
  const auto slot = static_cast<std::size_t>(window.slot);
  const Pd61& rule = rules_[static_cast<std::size_t>(array_of_slot_[slot])];
  by_worker_[static_cast<std::size_t>(worker)][slot] += rule.tile(window.box, window.data, window.strides_bytes);
}

Pd61Value ReadDigests::of_slot(std::int32_t slot) const {
  Pd61Value sum;
  for (const auto& sums : by_worker_) sum += sums[static_cast<std::size_t>(slot)];
  return sum;
}

namespace detail {

bool Check::same(const Pd61Value& a, const Pd61Value& b) const {
  if (a.lanes[0] != b.lanes[0]) return false;
  // Lane 1 is 0 where only one was taken.
  const bool both = options.lanes == 2 && a.lanes[1] != 0 && b.lanes[1] != 0;
  return !both || a.lanes[1] == b.lanes[1];
}

std::optional<Pd61Value> Check::as_read(const std::vector<std::size_t>& holders_of_box) const {
  for (const std::size_t i : holders_of_box) {
    if (holders[i].held->as_read) return holders[i].held->as_read;
  }
  return std::nullopt;
}

namespace {

/// Shards in GPUs' memory, by kernels there. What no kernel takes is left without a digest.
void digest_on_gpus(Check& check, const std::vector<std::size_t>& which) {
  std::vector<DeviceTile> tiles;
  std::vector<std::size_t> owners;
  for (const std::size_t i : which) {
    const Holder& holder = check.holders[i];
    if (!holder.on_gpu || holder.digest || holder.shard.box.empty()) continue;
    tiles.push_back(
        {holder.shard.box, holder.held->data.data(), holder.strides_bytes, holder.held->data.place().ordinal});
    owners.push_back(i);
  }
  if (tiles.empty()) return;
  const std::vector<std::optional<Pd61Value>> values = pd61_on_devices(check.rule, tiles);
  for (std::size_t k = 0; k < values.size(); ++k) {
    check.holders[owners[k]].digest = values[k];
    if (values[k] && check.options.progress != nullptr) check.options.progress->add(check.bytes_of(tiles[k].box));
  }
}

}  // namespace

void digest_memory(Check& check, const std::vector<std::size_t>& which) {
  struct Item {
    std::size_t holder;
    Box slice;
  };
  std::int64_t total = 0;
  std::vector<std::size_t> todo;
  digest_on_gpus(check, which);
  for (const std::size_t i : which) {
    const Holder& holder = check.holders[i];
    if (!holder.readable || holder.digest || holder.shard.box.empty()) continue;
    todo.push_back(i);
    total += check.bytes_of(holder.shard.box);
  }
  const std::int64_t window = window_bytes(total, check.pool.size());
  std::vector<Item> items;
  std::int64_t largest = 0;
  for (const std::size_t i : todo) {
    for (Box& slice : contiguous_slices(check.holders[i].shard.box, check.dtype, window)) {
      largest = std::max(largest, check.bytes_of(slice));
      items.push_back({i, std::move(slice)});
    }
  }
  std::vector<std::shared_ptr<Memory>> buffers(static_cast<std::size_t>(check.pool.size()));
  std::vector<Pd61Value> values(items.size());
  check.pool.parallel_for(
      std::ssize(items),
      [&](std::int64_t k, int worker) {
        const Item& item = items[static_cast<std::size_t>(k)];
        const Holder& holder = check.holders[item.holder];
        Pd61Value& value = values[static_cast<std::size_t>(k)];
        if (holder.on_gpu && holder.held->data.layout().contiguous()) {
          std::shared_ptr<Memory>& buffer = buffers[static_cast<std::size_t>(worker)];
          if (!buffer) buffer = Memory::allocate_host(largest);
          holder.fetch(item.slice, check.bytes_of(item.slice), buffer->base());
          value = check.rule.tile(item.slice, buffer->base());
        } else {
          value = check.rule.tile(item.slice, holder.at(item.slice), holder.strides_bytes);
        }
        if (check.options.progress != nullptr) check.options.progress->add(check.bytes_of(item.slice));
      },
      check.options.cancel);
  for (const std::size_t i : todo) check.holders[i].digest = Pd61Value{};
  for (std::size_t k = 0; k < items.size(); ++k) *check.holders[items[k].holder].digest += values[k];
}

std::vector<Pd61Value> digest_source(const Check& check, const std::vector<Box>& boxes) {
  struct Item {
    std::size_t box;
    Box slice;
  };
  std::int64_t total = 0;
  for (const Box& box : boxes) total += check.bytes_of(box);
  const std::int64_t window = window_bytes(total, check.pool.size());
  std::vector<Item> items;
  std::int64_t largest = 0;
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    for (Box& slice : contiguous_slices(boxes[b], check.dtype, window)) {
      largest = std::max(largest, check.bytes_of(slice));
      items.push_back({b, std::move(slice)});
    }
  }
  std::vector<std::shared_ptr<Memory>> buffers(static_cast<std::size_t>(check.pool.size()));
  std::vector<Pd61Value> values(items.size());
  check.pool.parallel_for(
      std::ssize(items),
      [&](std::int64_t k, int worker) {
        std::shared_ptr<Memory>& buffer = buffers[static_cast<std::size_t>(worker)];
        if (!buffer) buffer = Memory::allocate_host(largest);
        const Box& slice = items[static_cast<std::size_t>(k)].slice;
        check.options.read(slice, {buffer->base(), static_cast<std::size_t>(check.bytes_of(slice))});
        values[static_cast<std::size_t>(k)] = check.rule.tile(slice, buffer->base());
      },
      check.options.cancel);
  std::vector<Pd61Value> out(boxes.size());
  for (std::size_t k = 0; k < items.size(); ++k) out[items[k].box] += values[k];
  return out;
}

namespace {

std::vector<std::size_t> readable_holders(const Check& check) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < check.holders.size(); ++i) {
    if (check.holders[i].readable && !check.holders[i].shard.box.empty()) out.push_back(i);
  }
  return out;
}

/// The sum over one copy of each box is right (L1); the other copies are if they equal that one.
bool proven_by_sum(const Check& check, const std::vector<std::size_t>& holders_of_box) {
  if (!check.sum_proves) return false;
  const Holder* first = nullptr;
  for (const std::size_t i : holders_of_box) {
    const Holder& holder = check.holders[i];
    if (!holder.digest) continue;
    if (first != nullptr && !check.same(*first->digest, *holder.digest)) return false;
    if (first == nullptr) first = &holder;
  }
  return first != nullptr;
}

/// What the digest of each shard should be, as far as it is known.
struct Expectations {
  std::map<Box, Pd61Value> by_box;
  std::vector<bool> proven;  // by holder
  std::int64_t from_read = 0, from_source = 0, from_sum = 0, unknown = 0;
};

Expectations expectations(const Check& check) {
  Expectations out;
  out.proven.resize(check.holders.size());
  std::vector<Box> to_read;
  for (const auto& [box, holders] : check.by_box) {
    const auto shards = std::count_if(holders.begin(), holders.end(),
                                      [&](std::size_t i) { return check.holders[i].digest.has_value(); });
    if (shards == 0) continue;
    if (const auto value = check.as_read(holders)) {
      out.by_box.emplace(box, *value);
      out.from_read += shards;
    } else if (proven_by_sum(check, holders)) {
      for (const std::size_t i : holders) out.proven[i] = true;
      out.from_sum += shards;
    } else if (check.options.read) {
      to_read.push_back(box);
      out.from_source += shards;
    } else {
      out.unknown += shards;
    }
  }
  const std::vector<Pd61Value> values = digest_source(check, to_read);
  for (std::size_t b = 0; b < to_read.size(); ++b) out.by_box.emplace(to_read[b], values[b]);
  return out;
}

std::string note_of(const Expectations& known, std::int64_t unreadable) {
  std::string out;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) out += cat(out.empty() ? "" : ", ", count, count == 1 ? " shard " : " shards ", what);
  };
  add(known.from_read, "against the bytes as read");
  add(known.from_source, "against the source");
  add(known.from_sum, "by the sum of L1");
  add(known.unknown, "with nothing to compare with");
  add(unreadable, "in memory that cannot be read here and not looked at");
  return out;
}

}  // namespace

void check_device(Check& check) {
  LevelResult result;
  result.level = Level::device;
  if (!check.options.device) {
    result.note = "not asked for";
    check.verdict.levels.push_back(result);
    return;
  }
  const Expectations known = expectations(check);
  std::vector<std::size_t> suspects;
  std::int64_t unreadable = 0;
  for (std::size_t i = 0; i < check.holders.size(); ++i) {
    const Holder& holder = check.holders[i];
    if (holder.shard.box.empty()) continue;
    if (!holder.digest) {
      ++unreadable;
      continue;
    }
    const auto expected = known.by_box.find(holder.shard.box);
    if (!known.proven[i] && expected == known.by_box.end()) continue;
    result.ran = true;
    result.bytes += check.bytes_of(holder.shard.box);
    if (known.proven[i] || holder.accused) continue;
    // A copy that was read by itself has its own digest.
    const Pd61Value& value = holder.held->as_read ? *holder.held->as_read : expected->second;
    if (!check.same(value, *holder.digest)) suspects.push_back(i);
  }
  result.note = note_of(known, unreadable);
  if (result.note.empty()) result.note = "nothing is held here";
  const std::int64_t accused = accuse_by_content(check, Level::device, suspects);
  result.ok = accused == 0;
  if (accused < std::ssize(suspects)) {
    result.note += cat(", ", std::ssize(suspects) - accused, " equal to the source though not to the bytes as read");
  }
  check.verdict.bytes_verified += result.bytes;
  check.verdict.levels.push_back(result);
}

namespace {

/// A wrong sum that no level explains must not pass.
void explain_sum(Check& check) {
  LevelResult& source = check.verdict.levels[1];
  if (!check.sum_failed || !source.ok) return;
  if (!check.verdict.accusations.empty()) {
    source.note += "; their sum is wrong, and the accusations say where";
    return;
  }
  source.ok = false;
  Accusation a;
  a.array = check.name;
  a.shape = check.shape;
  a.level = Level::source;
  a.device_known = false;
  a.expected_box = Box::whole(check.shape);
  a.detail = cat("the sum ", check.verdict.digest, " is wrong, and where is not known");
  check.verdict.accusations.push_back(std::move(a));
}

}  // namespace

}  // namespace detail

Verdict verify_array(const std::string& name, DType dtype, const Shape& shape, const Sharding& sharding,
                     const std::vector<HeldShard>& held, const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const ThreadPool serial(1);
  detail::Check check(name, dtype, shape, sharding, options, options.pool != nullptr ? *options.pool : serial);
  detail::check_structure(check, held);
  if (options.device) detail::digest_memory(check, detail::readable_holders(check));
  detail::check_source(check);
  detail::check_device(check);
  detail::check_replicas(check);
  detail::explain_sum(check);
  detail::add_hints(check);
  if (check.verdict.bytes_verified == 0) check.verdict.bytes_verified = check.verdict.levels[1].bytes;
  check.verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(check.verdict);
}

void merge_into(Verdict& total, const Verdict& one) {
  for (const LevelResult& level : one.levels) {
    const auto it = std::find_if(total.levels.begin(), total.levels.end(),
                                 [&](const LevelResult& known) { return known.level == level.level; });
    if (it == total.levels.end()) {
      total.levels.push_back(level);
      continue;
    }
    // A level that ran for some arrays and not for others has run; what it says then is why it did not for the others.
    it->ran = it->ran || level.ran;
    it->ok = it->ok && level.ok;
    it->bytes += level.bytes;
    if (it->note.find(level.note) == std::string::npos) it->note += cat(it->note.empty() ? "" : "; ", level.note);
  }
  total.accusations.insert(total.accusations.end(), one.accusations.begin(), one.accusations.end());
  for (const std::string& hint : one.hints) {
    if (std::find(total.hints.begin(), total.hints.end(), hint) == total.hints.end()) total.hints.push_back(hint);
  }
  total.shards += one.shards;
  total.bytes_verified += one.bytes_verified;
  total.seconds += one.seconds;
  if (total.digest.empty()) total.digest = one.digest;
}

}  // namespace loadstone
