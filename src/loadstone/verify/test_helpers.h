#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/shard/test_helpers.h"
#include "loadstone/verify/verify.h"

/// An array in memory, a sharding, and what each device holds of it: right at first, then as a test wants it.
namespace loadstone::test {

using Bytes = std::vector<std::byte>;
using Lines = std::vector<std::string>;
using Ids = std::vector<std::int64_t>;

inline const Ids kFigure2{6, 2, 3, 4, 0, 7, 5, 1};
inline const Ids kFigure10{0, 4, 2, 6, 1, 5, 3, 7};

inline Bytes random_bytes(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes out(static_cast<std::size_t>(count));
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 255);
  return out;
}

inline Dims byte_strides(const Shape& shape, std::int64_t itemsize) {
  Dims strides = c_strides(shape);
  for (std::int64_t& stride : strides) stride *= itemsize;
  return strides;
}

class World {
 public:
  World(Shape shape, DType dtype, Sharding sharding)
      : shape_(std::move(shape)),
        dtype_(dtype),
        sharding_(std::move(sharding)),
        source_(random_bytes(dtype.nbytes(num_elems(shape_)), 42)) {
    load();
  }

  const Shape& shape() const { return shape_; }
  const Sharding& sharding() const { return sharding_; }
  Bytes& source() { return source_; }
  std::vector<HeldShard>& held() { return held_; }

  /// Every device gets its own box of the source.
  void load() {
    held_.clear();
    for (const Shard& shard : sharding_.all_shards(shape_))
      held_.push_back({shard, copy_of(shard.box, shard.device), {}});
  }
  /// Every device gets the box that another sharding gives it.
  void load_as(const Sharding& other) {
    for (const Shard& shard : other.all_shards(shape_)) hold(shard.device.id, shard.box);
  }
  HeldShard& of(std::int64_t id) {
    for (HeldShard& held : held_) {
      if (held.shard.device.id == id) return held;
    }
    throw internal_error(cat("no device ", id));
  }
  /// The device's buffer gets the bytes of this box.
  void hold(std::int64_t id, const Box& box) { of(id).data = copy_of(box, of(id).shard.device); }
  Box box_of(std::int64_t id) { return of(id).shard.box; }
  void keep_process(std::int32_t process) {
    std::erase_if(held_, [&](const HeldShard& held) { return held.shard.device.process != process; });
  }

  View copy_of(const Box& box, const Device& device) {
    View view = View::allocate(box.shape(), dtype_, device.place);
    if (!box.empty()) read(box, view.bytes());
    return view;
  }
  void read(const Box& box, std::span<std::byte> dst) {
    const std::int64_t itemsize = dtype_.itemsize();
    std::byte* first = source_.data() + linear_index(box.begin, Box::whole(shape_)) * itemsize;
    strided_copy({dst.data(), byte_strides(box.shape(), itemsize)}, {first, byte_strides(shape_, itemsize)},
                 box.shape(), itemsize);
  }
  SourceReader reader() {
    return [this](const Box& box, std::span<std::byte> dst) {
      ++reads_;
      read(box, dst);
    };
  }
  int reads() const { return reads_; }
  /// Digests as an executor's tap leaves them: of the right bytes.
  void set_as_read() {
    const Pd61 rule(shape_, dtype_);
    for (HeldShard& held : held_) {
      const View right = copy_of(held.shard.box, held.shard.device);
      held.as_read = rule.tile(held.shard.box, right.data());
    }
  }
  ManifestArray manifest() { return digest_array("w", dtype_, shape_, reader(), ThreadPool(1)); }

  Verdict verify(const VerifyOptions& options) const {
    return verify_array("w", dtype_, shape_, sharding_, held_, options);
  }
  Verdict with_source() {
    VerifyOptions options;
    options.read = reader();
    return verify(options);
  }
  Verdict without_source() const { return verify({}); }

 private:
  Shape shape_;
  DType dtype_;
  Sharding sharding_;
  Bytes source_;
  std::vector<HeldShard> held_;
  std::atomic<int> reads_ = 0;
};

inline std::string device_text(const Device& device) {
  return cat("d", device.id, " p", device.process);
}

/// "L2 d1 p0: [:,16:32] holds [:,32:48] of d2" for every accusation.
inline Lines accusations_of(const Verdict& verdict) {
  Lines out;
  for (const Accusation& a : verdict.accusations) {
    std::string line(to_string(a.level).substr(0, 2));
    line += a.device_known ? cat(" ", device_text(a.device), ": ") : " source: ";
    line += compact(to_string(a.expected_box, a.shape));
    if (a.counterpart && !a.culprit_known) line += cat(" or ", device_text(*a.counterpart));
    if (a.found_box) {
      line += cat(" holds ", compact(to_string(*a.found_box, a.shape)), " of");
      for (const Device& owner : a.found_owners) line += cat(" d", owner.id);
    } else if (a.holds == Accusation::Holds::all_zero) {
      line += " all zero";
    } else if (a.holds == Accusation::Holds::other_structure) {
      line += cat(" ", a.detail);
    }
    out.push_back(std::move(line));
  }
  return out;
}

inline void expect_silent(const Verdict& verdict) {
  EXPECT_TRUE(verdict.ok()) << to_string(verdict);
  EXPECT_TRUE(verdict.hints.empty());
}

}  // namespace loadstone::test
