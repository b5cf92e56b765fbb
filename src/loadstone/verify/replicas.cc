// L3: the holders of one box hold the same bytes. Needs no source.
#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/verify/check.h"

namespace loadstone::detail {

namespace {

using Indices = std::vector<std::size_t>;

class Replicas {
 public:
  explicit Replicas(Check& check) : check_(check) {}

  LevelResult run() {
    result_.level = Level::replicas;
    if (!check_.options.replicas) return not_run("not asked for");
    std::int64_t groups = 0;
    std::int64_t differing = 0;
    for (const auto& [box, all] : check_.by_box) {
      const std::vector<Indices> classes = classes_of(box, all);
      if (classes.empty()) continue;
      ++groups;
      if (classes.size() == 1) continue;
      ++differing;
      result_.ok = false;
      judge(classes);
    }
    if (groups == 0) return not_run("no box has two holders here");
    result_.ran = true;
    result_.note = cat(groups, groups == 1 ? " box with replicas" : " boxes with replicas");
    if (differing > 0) result_.note += cat(", ", differing, differing == 1 ? " differs" : " differ");
    return result_;
  }

 private:
  LevelResult not_run(std::string why) {
    result_.note = std::move(why);
    return result_;
  }

  /// Holders of one box by equal digests, in mesh order; nothing when fewer than two can be compared.
  std::vector<Indices> classes_of(const Box& box, const Indices& all) {
    const auto usable = [&](std::size_t i) { return check_.holders[i].readable; };
    // Without a pass over the memory the digests of the bytes as read serve as well.
    const bool as_read = !check_.options.device && std::all_of(all.begin(), all.end(), [&](std::size_t i) {
      return check_.holders[i].held->as_read.has_value();
    });
    Indices compared;
    std::copy_if(all.begin(), all.end(), std::back_inserter(compared),
                 [&](std::size_t i) { return as_read || usable(i); });
    if (compared.size() < 2) return {};
    if (!as_read) digest_memory(check_, compared);
    result_.bytes += std::ssize(compared) * check_.bytes_of(box);
    std::vector<Indices> classes;
    for (const std::size_t i : compared) {
      const auto value = [&](std::size_t k) {
        return as_read ? *check_.holders[k].held->as_read : *check_.holders[k].digest;
      };
      const auto same = std::find_if(classes.begin(), classes.end(),
                                     [&](const Indices& c) { return check_.same(value(c.front()), value(i)); });
      if (same == classes.end()) {
        classes.push_back({i});
      } else {
        same->push_back(i);
      }
    }
    return classes;
  }

  std::vector<Device> devices_of(const Indices& which) const {
    std::vector<Device> out;
    for (const std::size_t i : which) out.push_back(check_.holders[i].shard.device);
    return out;
  }

  void judge(std::vector<Indices> classes) {
    Indices accused;
    for (Indices& one : classes) {
      std::erase_if(one, [&](std::size_t i) {
        if (check_.holders[i].accused) accused.push_back(i);
        return check_.holders[i].accused;
      });
    }
    std::erase_if(classes, [](const Indices& one) { return one.empty(); });
    if (!accused.empty() && !classes.empty()) name_counterpart(accused, classes.front());
    if (classes.size() < 2) return;  // all that differ have been accused by their content

    std::stable_sort(classes.begin(), classes.end(),
                     [](const Indices& a, const Indices& b) { return a.size() > b.size(); });
    const bool majority = classes[0].size() > classes[1].size();
    Indices minority;
    for (std::size_t c = 1; c < classes.size(); ++c) {
      minority.insert(minority.end(), classes[c].begin(), classes[c].end());
    }
    std::sort(minority.begin(), minority.end());
    for (const std::size_t i : minority) {
      if (majority) {
        accuse_minority(i, classes[0]);
      } else {
        accuse_pair(classes[0].front(), i, classes);
      }
    }
  }

  void name_counterpart(const Indices& accused, const Indices& right) {
    for (Accusation& a : check_.verdict.accusations) {
      const bool one_of_these = std::any_of(accused.begin(), accused.end(), [&](std::size_t i) {
        return a.device_known && check_.holders[i].shard.device == a.device && a.level != Level::structure;
      });
      if (!one_of_these || a.counterpart) continue;
      a.counterpart = check_.holders[right.front()].shard.device;
      add_detail(a, agree_text(right));
    }
  }

  std::string agree_text(const Indices& which) const {
    if (which.size() == 1) return "";
    return cat("devices ", ids_text(devices_of(which)), " agree");
  }

  static void add_detail(Accusation& a, const std::string& text) {
    if (!text.empty()) a.detail += cat(a.detail.empty() ? "" : "; ", text);
  }

  /// `expected` and `found` are different as far as their digests go; where, if both can be looked at.
  void locate(Accusation& a, const Holder& expected, const Holder& found) {
    if (!expected.readable || !found.readable) return;
    const auto difference = first_difference(found.shard.box.shape(), check_.dtype, memory_of(check_, expected),
                                             memory_of(check_, found), scratch_);
    if (difference) set_difference(a, *difference, found, check_.dtype);
  }

  void accuse_minority(std::size_t i, const Indices& majority) {
    Holder& holder = check_.holders[i];
    Accusation a = check_.accuse(holder.shard, Level::replicas);
    a.counterpart = check_.holders[majority.front()].shard.device;
    locate(a, check_.holders[majority.front()], holder);
    const Indices same = same_bytes_elsewhere(holder);
    if (!same.empty()) {
      a.holds = Accusation::Holds::other_box;
      a.found_box = check_.holders[same.front()].shard.box;
      a.found_owners = check_.owners_of(*a.found_box);
      holder.found_box = a.found_box;
    } else if (holder.readable &&
               all_zero(holder.shard.box.shape(), check_.dtype, memory_of(check_, holder), scratch_)) {
      a.holds = Accusation::Holds::all_zero;
    }
    add_detail(a, agree_text(majority));
    check_.verdict.accusations.push_back(std::move(a));
  }

  void accuse_pair(std::size_t first, std::size_t second, const std::vector<Indices>& classes) {
    const Holder& holder = check_.holders[first];
    const Holder& other = check_.holders[second];
    Accusation a = check_.accuse(holder.shard, Level::replicas);
    a.culprit_known = false;
    a.counterpart = other.shard.device;
    locate(a, other, holder);
    if (classes[0].size() > 1) {
      for (const Indices& one : classes) add_detail(a, agree_text(one));
    }
    for (const Holder* one : {&holder, &other}) {
      const Indices same = same_bytes_elsewhere(*one);
      if (same.empty()) continue;
      add_detail(a, cat("device ", one->shard.device.id, " holds the same bytes as ",
                        same.size() == 1 ? "device " : "devices ", ids_text(devices_of(same))));
    }
    check_.verdict.accusations.push_back(std::move(a));
  }

  /// Holders of other boxes of the same shape with exactly these bytes, wherever those belong.
  Indices same_bytes_elsewhere(const Holder& holder) {
    Indices out;
    if (!holder.readable) return out;
    const Shape shape = holder.shard.box.shape();
    for (std::size_t i = 0; i < check_.holders.size(); ++i) {
      const Holder& other = check_.holders[i];
      if (!other.readable || other.shard.box == holder.shard.box || other.shard.box.shape() != shape) continue;
      if (!first_difference(shape, check_.dtype, memory_of(check_, other), memory_of(check_, holder), scratch_)) {
        out.push_back(i);
      }
    }
    return out;
  }

  Check& check_;
  LevelResult result_;
  Scratch scratch_;
};

}  // namespace

std::string ids_text(const std::vector<Device>& devices) {
  std::string out;
  for (const Device& device : devices) out += cat(out.empty() ? "" : ", ", device.id);
  return out;
}

void check_replicas(Check& check) {
  check.verdict.levels.push_back(Replicas(check).run());
}

}  // namespace loadstone::detail
