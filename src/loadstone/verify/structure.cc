// L0: devices, places, shapes, dtypes and the geometry of the boxes.
#include <algorithm>
#include <set>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/verify/check.h"

namespace loadstone::detail {

namespace {

constexpr std::int64_t kGeometryDevices = 4096;

/// True when some two of the boxes overlap. A sweep along the dimension with the most boundaries.
bool any_overlap(std::vector<Box> boxes) {
  if (boxes.size() < 2) return false;
  int sweep = 0;
  std::size_t most = 0;
  for (int d = 0; d < boxes[0].ndim(); ++d) {
    std::set<std::int64_t> begins;
    for (const Box& box : boxes) begins.insert(box.begin[d]);
    if (begins.size() > most) {
      most = begins.size();
      sweep = d;
    }
  }
  if (boxes[0].ndim() == 0) return true;
  std::sort(boxes.begin(), boxes.end(), [&](const Box& a, const Box& b) { return a.begin[sweep] < b.begin[sweep]; });
  std::vector<const Box*> active;
  for (const Box& box : boxes) {
    std::erase_if(active, [&](const Box* other) { return other->end[sweep] <= box.begin[sweep]; });
    if (std::any_of(active.begin(), active.end(), [&](const Box* other) { return overlaps(*other, box); })) return true;
    active.push_back(&box);
  }
  return false;
}

std::int64_t volume(const std::vector<Box>& boxes) {
  std::int64_t total = 0;
  for (const Box& box : boxes) total += box.num_elems();
  return total;
}

/// One device against what it should hold: "" or every field that is wrong.
std::string wrong_fields(const Check& check, const Shard& shard, const HeldShard& held) {
  std::string out;
  const auto differs = [&](const char* field, const std::string& expected, const std::string& found) {
    if (expected != found) out += cat(out.empty() ? "" : "; ", field, ": expected ", expected, ", found ", found);
  };
  differs("box", to_string(shard.box, check.shape), to_string(held.shard.box, check.shape));
  const View& view = held.data;
  if (shard.box.empty() && view.memory() == nullptr) return out;  // nothing to hold and nothing held
  differs("device", to_string(shard.device.place), to_string(view.place()));
  differs("shape", to_string(shard.box.shape()), to_string(view.shape()));
  differs("dtype", to_string(check.dtype), to_string(view.dtype()));
  if (out.empty()) {
    differs("bytes", std::to_string(check.dtype.nbytes(shard.box.num_elems())), std::to_string(view.nbytes()));
  }
  return out;
}

/// The bytes can be walked as what they should be, on whatever device they are.
bool comparable(const Check& check, const Shard& shard, const HeldShard& held) {
  const View& view = held.data;
  if (held.shard.box != shard.box || shard.box.shape() != view.shape() || check.dtype != view.dtype()) return false;
  return check.dtype.whole_bytes() || view.layout().contiguous();
}

class Structure {
 public:
  Structure(Check& check, const std::vector<HeldShard>& held) : check_(check), held_(held) {}

  void run() {
    check_.sharding.check(check_.shape, check_.name);
    result_.ran = true;
    match_devices();
    find_missing();
    geometry();
    collect_boxes();
    check_.verdict.shards = static_cast<std::int64_t>(held_.size());
    check_.verdict.levels.push_back(result_);
  }

 private:
  void accuse(const Shard& shard, std::string detail) {
    Accusation a = check_.accuse(shard, Level::structure);
    a.holds = Accusation::Holds::other_structure;
    a.detail = std::move(detail);
    check_.verdict.accusations.push_back(std::move(a));
    result_.ok = false;
  }

  void match_devices() {
    const Mesh& mesh = check_.sharding.mesh();
    std::vector<std::pair<std::int64_t, const HeldShard*>> known;
    for (const HeldShard& held : held_) {
      const std::int64_t position = mesh.position_of_id(held.shard.device.id);
      if (position >= 0) {
        known.emplace_back(position, &held);
      } else {
        accuse(held.shard, "device: not one of the sharding's");
      }
    }
    std::stable_sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::int64_t> positions;
    for (const auto& [position, held] : known) positions.push_back(position);
    const std::vector<Shard> shards = check_.sharding.shards(check_.shape, positions);
    for (std::size_t i = 0; i < known.size(); ++i) {
      seen_.insert(positions[i]);
      processes_.insert(shards[i].device.process);
      if (i > 0 && positions[i] == positions[i - 1]) {
        accuse(shards[i], "device: expected one buffer, found another one");
        continue;
      }
      add(shards[i], *known[i].second);
    }
  }

  void add(const Shard& shard, const HeldShard& held) {
    if (std::string wrong = wrong_fields(check_, shard, held); !wrong.empty()) accuse(shard, std::move(wrong));
    if (!comparable(check_, shard, held) && !shard.box.empty()) return;
    Holder holder;
    holder.held = &held;
    holder.shard = shard;
    const Place place = held.data.place();
    holder.on_gpu = place.kind == PlaceKind::cuda && cuda::driver() != nullptr && place.ordinal < cuda::device_count();
    holder.readable = place.host_accessible() || holder.on_gpu;
    holder.strides_bytes = held.data.layout().strides();
    for (std::int64_t& stride : holder.strides_bytes) stride = stride * check_.dtype.elem_bits() / 8;
    check_.holders.push_back(std::move(holder));
  }

  void find_missing() {
    const std::vector<Device>& devices = check_.sharding.devices();
    if (check_.options.process) {
      processes_.insert(*check_.options.process);
    } else if (held_.empty() && check_.sharding.mesh().process_count() == 1) {
      processes_.insert(0);
    }
    std::vector<std::int64_t> missing;
    for (std::size_t position = 0; position < devices.size(); ++position) {
      if (processes_.contains(devices[position].process) && !seen_.contains(static_cast<std::int64_t>(position))) {
        missing.push_back(static_cast<std::int64_t>(position));
      }
    }
    for (const Shard& shard : check_.sharding.shards(check_.shape, missing)) {
      accuse(shard, cat("buffer: expected shape ", to_string(shard.box.shape()), ", found none"));
    }
  }

  void geometry() {
    result_.note = cat(held_.size(), held_.size() == 1 ? " buffer" : " buffers");
    if (check_.sharding.num_devices() > kGeometryDevices) return;
    std::vector<Box> boxes;
    for (const HeldBox& held : check_.all_boxes()) {
      if (!held.box.empty()) boxes.push_back(held.box);
    }
    const std::int64_t total = num_elems(check_.shape);
    const std::int64_t sum = volume(boxes);
    if (any_overlap(boxes)) {
      // A table of boxes may overlap; a mesh and a spec never do.
      result_.ok = result_.ok && check_.sharding.kind() == Sharding::Kind::boxes;
      result_.note += ", boxes of the sharding overlap";
    } else if (sum != total) {
      result_.ok = false;
      result_.note += cat(", boxes of the sharding hold ", sum, " of ", total, " elements");
    } else {
      result_.note += cat(", ", boxes.size(), boxes.size() == 1 ? " box covers" : " boxes cover", " the array");
    }
  }

  void collect_boxes() {
    std::vector<Box> boxes;
    for (std::size_t i = 0; i < check_.holders.size(); ++i) {
      const Box& box = check_.holders[i].shard.box;
      if (!box.empty()) check_.by_box[box].push_back(i);
    }
    for (const auto& [box, holders] : check_.by_box) boxes.push_back(box);
    check_.disjoint = !any_overlap(boxes);
    check_.covered = check_.disjoint && volume(boxes) == num_elems(check_.shape);
  }

  Check& check_;
  const std::vector<HeldShard>& held_;
  LevelResult result_;
  std::set<std::int64_t> seen_;
  std::set<std::int32_t> processes_;
};

}  // namespace

const std::byte* Holder::at(const Box& slice) const {
  if (!on_gpu) return address(slice);
  std::call_once(mirror_->made, [&] {
    const View& view = held->data;
    const std::int64_t bits = view.dtype().elem_bits();
    const std::int64_t low = view.layout().min_offset() * bits / 8;
    const std::int64_t bytes = view.dtype().nbytes(view.layout().max_offset() + 1) - low;
    mirror_->memory = Memory::allocate_host(bytes);
    cuda::copy_to_host(mirror_->memory->base(), view.data() + low, bytes, view.place().ordinal);
    mirror_->shift = -low;
  });
  return mirror_->memory->base() + mirror_->shift + (address(slice) - held->data.data());
}

void Holder::fetch(const Box& slice, std::int64_t bytes, std::byte* to) const {
  cuda::copy_to_host(to, address(slice), bytes, held->data.place().ordinal);
}

const std::byte* Holder::address(const Box& slice) const {
  const View& view = held->data;
  if (!view.dtype().whole_bytes()) {
    return view.data() + linear_index(slice.begin, shard.box) * view.dtype().elem_bits() / 8;
  }
  const std::byte* out = view.data();
  for (int d = 0; d < slice.ndim(); ++d) out += (slice.begin[d] - shard.box.begin[d]) * strides_bytes[d];
  return out;
}

const std::vector<HeldBox>& Check::all_boxes() {
  if (!all_boxes_) {
    all_boxes_ = unique_boxes(sharding, shape);
    for (std::size_t i = 0; i < all_boxes_->size(); ++i) index_of_box_.emplace((*all_boxes_)[i].box, i);
  }
  return *all_boxes_;
}

std::vector<Device> Check::owners_of(const Box& box) {
  const std::vector<HeldBox>& boxes = all_boxes();
  std::vector<Device> out;
  const auto it = index_of_box_.find(box);
  if (it == index_of_box_.end()) return out;
  for (const std::int64_t position : boxes[it->second].positions) {
    out.push_back(sharding.devices()[static_cast<std::size_t>(position)]);
  }
  return out;
}

Accusation Check::accuse(const Shard& shard, Level level) const {
  Accusation out;
  out.array = name;
  out.shape = shape;
  out.level = level;
  out.device = shard.device;
  out.replica_id = shard.replica_id;
  out.expected_box = shard.box;
  return out;
}

void check_structure(Check& check, const std::vector<HeldShard>& held) {
  Structure(check, held).run();
}

}  // namespace loadstone::detail
