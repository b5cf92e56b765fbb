// L1: the bytes as they were read against a manifest, or against an independent contiguous pass over the source.
#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/check.h"
#include "loadstone/verify/manifest_json.h"
#include "loadstone/verify/slices.h"

namespace loadstone::detail {

namespace {

class Source {
 public:
  explicit Source(Check& check) : check_(check), manifest_(check.options.manifest), read_(check.options.read) {}

  LevelResult run() {
    result_.level = Level::source;
    if (!check_.options.source) return not_run("not asked for");
    if (manifest_ == nullptr && !(check_.options.independent_pass && read_)) {
      return not_run(check_.options.independent_pass ? "no way to read the source again"
                                                     : "no manifest, and no second pass over the source asked for");
    }
    result_.ran = true;
    if (manifest_ != nullptr && !structure_agrees()) return result_;
    take_values();
    if (num_elems(check_.shape) == 0) {
      result_.note = "the array is empty";
    } else if (check_.by_box.empty()) {
      return not_run("this process holds nothing of the array");
    } else if (missing_ > 0) {
      without_digests();
    } else if (check_.covered) {
      whole();
    } else {
      part();
    }
    return result_;
  }

 private:
  LevelResult not_run(std::string why) {
    result_.ran = false;
    result_.note = std::move(why);
    return result_;
  }

  /// A part of the source is wrong; no device is at fault.
  void accuse_source(const Box& box, std::string detail) {
    Accusation a;
    a.array = check_.name;
    a.shape = check_.shape;
    a.level = Level::source;
    a.device_known = false;
    a.expected_box = box;
    a.detail = std::move(detail);
    check_.verdict.accusations.push_back(std::move(a));
    result_.ok = false;
  }

  bool structure_agrees() {
    std::string detail;
    const auto differs = [&](const char* field, const std::string& expected, const std::string& found) {
      if (expected != found)
        detail += cat(detail.empty() ? "" : "; ", field, ": expected ", expected, ", found ", found);
    };
    differs("shape", to_string(manifest_->shape), to_string(check_.shape));
    differs("dtype", to_string(manifest_->dtype), to_string(check_.dtype));
    differs("bytes", std::to_string(manifest_->bytes), std::to_string(check_.dtype.nbytes(num_elems(check_.shape))));
    if (detail.empty()) return true;
    accuse_source(Box::whole(check_.shape), cat(detail, " (expected is what the manifest says)"));
    return false;
  }

  /// Digests of one copy of each box: of the bytes as read, or else of the memory of the first readable holder.
  void take_values() {
    for (const auto& [box, holders] : check_.by_box) {
      std::optional<Pd61Value> value = check_.as_read(holders);
      for (const std::size_t i : holders) {
        if (value) break;
        value = check_.holders[i].digest;
        if (value) from_memory_ = true;
      }
      if (value) {
        values_.emplace(box, *value);
      } else {
        ++missing_;
      }
    }
  }

  std::string digest_text(const Pd61Value& value) const {
    const std::string text = to_string(value);
    return check_.options.lanes == 1 || value.lanes[1] == 0 ? text.substr(0, 16) : text;
  }

  std::string mismatch(const Pd61Value& expected, const Pd61Value& found) const {
    return cat("digest: expected ", digest_text(expected), ", found ", digest_text(found));
  }

  ManifestArray pass() const {
    return digest_array(check_.name, check_.dtype, check_.shape, read_, check_.pool, nullptr, check_.options.cancel);
  }

  /// No digest of what is held is at hand: all that can be compared are the files themselves.
  void without_digests() {
    if (manifest_ == nullptr || !read_ || !check_.covered) {
      result_.ran = false;
      result_.note = cat("no digest of the bytes of ", missing_, missing_ == 1 ? " box" : " boxes");
      return;
    }
    const ManifestArray found = pass();
    result_.bytes = found.bytes;
    result_.note = "the files against the manifest, not the bytes as read";
    if (check_.same(found.digest, manifest_->digest)) return;
    compare_blocks(found.blocks, std::vector<bool>(found.blocks.size(), true), found.rows_per_block, found.digest);
  }

  void whole() {
    Pd61Value sum;
    bool one_lane = false;
    for (const auto& [box, value] : values_) {
      sum += value;
      one_lane = one_lane || (value.lanes[1] == 0 && value.lanes[0] != 0);
    }
    if (one_lane) sum.lanes[1] = 0;
    check_.verdict.digest = digest_text(sum);
    result_.bytes = check_.dtype.nbytes(num_elems(check_.shape));
    std::optional<ManifestArray> second;
    if (manifest_ == nullptr) second = pass();
    const Pd61Value expected = second ? second->digest : manifest_->digest;
    result_.note = cat("sum over ", values_.size(), values_.size() == 1 ? " box" : " boxes", " against ",
                       second ? "a contiguous pass over the source" : "the manifest");
    if (check_.same(sum, expected)) {
      check_.sum_proves = from_memory_;
      return;
    }
    check_.sum_failed = true;
    if (second) {
      // L2 compares what is in memory with the source, box by box; what was read is compared here.
      if (!from_memory_) accuse_boxes();
      if (from_memory_ && !check_.options.device) accuse_source(Box::whole(check_.shape), mismatch(expected, sum));
      return;
    }
    locate_by_manifest(sum);
  }

  void locate_by_manifest(const Pd61Value& sum) {
    if (read_) {
      const ManifestArray found = pass();
      if (!check_.same(found.digest, manifest_->digest)) {
        compare_blocks(found.blocks, std::vector<bool>(found.blocks.size(), true), found.rows_per_block, found.digest);
        return;
      }
      result_.note += "; the source itself agrees with the manifest";
      if (!from_memory_) accuse_boxes();
      return;
    }
    if (!compare_memory_blocks()) {
      accuse_source(Box::whole(check_.shape), cat(mismatch(manifest_->digest, sum), "; where is not known"));
    }
  }

  /// Rows of the blocks that differ from the manifest's, neighbours joined. True if any differs.
  bool compare_blocks(const std::vector<Pd61Value>& found, const std::vector<bool>& complete,
                      std::int64_t rows_per_block, const Pd61Value& digest) {
    const std::vector<Pd61Value>& expected = manifest_->blocks;
    if (rows_per_block != manifest_->rows_per_block || found.size() != expected.size() || found.empty()) {
      accuse_source(Box::whole(check_.shape), mismatch(manifest_->digest, digest));
      return true;
    }
    bool any = false;
    for (std::size_t b = 0; b < found.size();) {
      const auto differs = [&](std::size_t k) { return complete[k] && !check_.same(found[k], expected[k]); };
      std::size_t end = b;
      Pd61Value expected_sum;
      Pd61Value found_sum;
      for (; end < found.size() && differs(end); ++end) {
        expected_sum += expected[end];
        found_sum += found[end];
      }
      if (end > b) {
        any = true;
        Box rows = Box::whole(check_.shape);
        rows.begin[0] = static_cast<std::int64_t>(b) * rows_per_block;
        rows.end[0] = std::min(static_cast<std::int64_t>(end) * rows_per_block, check_.shape[0]);
        accuse_source(rows, mismatch(expected_sum, found_sum));
      }
      b = end + 1;
    }
    return any;
  }

  /// The same from what is held in memory, for blocks of rows that are held in full. True if any differs.
  bool compare_memory_blocks() {
    const std::int64_t rows_per_block = manifest_->rows_per_block;
    if (rows_per_block == 0 || !check_.disjoint || !check_.options.device) return false;
    std::vector<Pd61Value> blocks(manifest_->blocks.size());
    std::vector<std::int64_t> elems(blocks.size(), 0);
    const std::int64_t row_elems = num_elems(check_.shape) / check_.shape[0];
    for (const auto& [box, holders] : check_.by_box) {
      const auto holder =
          std::find_if(holders.begin(), holders.end(), [&](std::size_t i) { return check_.holders[i].readable; });
      if (holder == holders.end()) continue;
      const Holder& held = check_.holders[*holder];
      add_memory(held, blocks);
      const std::int64_t inner = box.num_elems() / box.extent(0);
      for (std::int64_t row = box.begin[0]; row < box.end[0];) {
        const std::int64_t block = row / rows_per_block;
        const std::int64_t next = std::min(box.end[0], (block + 1) * rows_per_block);
        elems[static_cast<std::size_t>(block)] += (next - row) * inner;
        row = next;
      }
    }
    std::vector<bool> complete(blocks.size());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const std::int64_t begin = static_cast<std::int64_t>(b) * rows_per_block;
      complete[b] = elems[b] == (std::min(begin + rows_per_block, check_.shape[0]) - begin) * row_elems;
      if (complete[b]) blocks_compared_ += 1;
    }
    return compare_blocks(blocks, complete, rows_per_block, {});
  }

  void add_memory(const Holder& held, std::vector<Pd61Value>& blocks) const {
    const std::vector<Box> slices = contiguous_slices(
        held.shard.box, check_.dtype, window_bytes(check_.bytes_of(held.shard.box), check_.pool.size()));
    std::vector<std::vector<Pd61Value>> sums(static_cast<std::size_t>(check_.pool.size()));
    check_.pool.parallel_for(
        std::ssize(slices),
        [&](std::int64_t i, int worker) {
          std::vector<Pd61Value>& mine = sums[static_cast<std::size_t>(worker)];
          mine.resize(blocks.size());
          const Box& slice = slices[static_cast<std::size_t>(i)];
          if (held.on_gpu && held.held->data.layout().contiguous()) {
            const std::shared_ptr<Memory> buffer = Memory::allocate_host(check_.bytes_of(slice));
            held.fetch(slice, check_.bytes_of(slice), buffer->base());
            Dims strides = c_strides(slice.shape());
            for (std::int64_t& stride : strides) stride = stride * check_.dtype.elem_bits() / 8;
            add_to_blocks(check_.rule, slice, buffer->base(), strides, manifest_->rows_per_block, mine);
          } else {
            add_to_blocks(check_.rule, slice, held.at(slice), held.strides_bytes, manifest_->rows_per_block, mine);
          }
        },
        check_.options.cancel);
    for (const auto& mine : sums) {
      for (std::size_t b = 0; b < mine.size(); ++b) blocks[b] += mine[b];
    }
  }

  /// Compares what was read for each box with the source, and accuses the devices of those that differ.
  void accuse_boxes() {
    std::vector<Box> boxes;
    for (const auto& [box, value] : values_) boxes.push_back(box);
    const std::vector<Pd61Value> expected = digest_source(check_, boxes);
    std::vector<std::size_t> suspects;
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      if (check_.same(values_.at(boxes[b]), expected[b])) continue;
      for (const std::size_t i : check_.by_box.at(boxes[b])) {
        const Holder& holder = check_.holders[i];
        if (holder.readable) {
          suspects.push_back(i);
          continue;
        }
        Accusation a = check_.accuse(holder.shard, Level::source);
        a.detail = cat("as read: ", mismatch(expected[b], values_.at(boxes[b])));
        check_.verdict.accusations.push_back(std::move(a));
      }
      result_.ok = false;
    }
    std::sort(suspects.begin(), suspects.end());
    const std::size_t before = check_.verdict.accusations.size();
    accuse_by_content(check_, Level::source, suspects);
    if (result_.ok) {
      accuse_source(Box::whole(check_.shape), "a contiguous pass and the boxes read one by one have different digests");
    } else if (check_.verdict.accusations.size() == before) {
      result_.note += "; the bytes as read differed from the source, the bytes in memory do not";
    }
  }

  /// This process holds a part of the array.
  void part() {
    std::int64_t held_bytes = 0;
    for (const auto& [box, value] : values_) held_bytes += check_.bytes_of(box);
    const std::string share =
        cat(held_bytes, " of ", check_.dtype.nbytes(num_elems(check_.shape)), " bytes are held here");
    if (manifest_ == nullptr) {
      result_.bytes = held_bytes;
      result_.note = cat(share, ": each box against the source");
      part_by_source();
      return;
    }
    if (!check_.disjoint) {
      not_run("the boxes held here overlap, so their digests cannot be summed");
      return;
    }
    std::int64_t compared = 0;
    if (boxes_end_at_blocks()) {
      compared = part_by_rows();
    } else {
      compare_memory_blocks();
      compared = blocks_compared_;
    }
    if (compared == 0) {
      not_run(cat(share, ", and they contain no whole block of rows of the manifest"));
      return;
    }
    result_.bytes = held_bytes;
    result_.note = cat(share, ": ", compared, " blocks of rows against the manifest");
  }

  void part_by_source() {
    std::vector<Box> boxes;
    for (const auto& [box, value] : values_) {
      if (check_.as_read(check_.by_box.at(box))) boxes.push_back(box);
    }
    const std::vector<Pd61Value> expected = digest_source(check_, boxes);
    std::vector<std::size_t> suspects;
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      if (check_.same(values_.at(boxes[b]), expected[b])) continue;
      result_.ok = false;
      for (const std::size_t i : check_.by_box.at(boxes[b])) {
        if (check_.holders[i].readable) suspects.push_back(i);
      }
    }
    std::sort(suspects.begin(), suspects.end());
    accuse_by_content(check_, Level::source, suspects);
  }

  bool is_rows_of_blocks(const Box& box) const {
    const std::int64_t rows = manifest_->rows_per_block;
    if (rows == 0 || box.begin[0] % rows != 0 || (box.end[0] % rows != 0 && box.end[0] != check_.shape[0]))
      return false;
    for (int d = 1; d < box.ndim(); ++d) {
      if (box.extent(d) != check_.shape[d]) return false;
    }
    return true;
  }

  bool boxes_end_at_blocks() const {
    return std::all_of(values_.begin(), values_.end(),
                       [&](const auto& entry) { return is_rows_of_blocks(entry.first); });
  }

  std::int64_t part_by_rows() {
    std::int64_t compared = 0;
    const std::int64_t rows = manifest_->rows_per_block;
    for (const auto& [box, value] : values_) {
      Pd61Value expected;
      for (std::int64_t b = box.begin[0] / rows; b * rows < box.end[0]; ++b, ++compared) {
        expected += manifest_->blocks[static_cast<std::size_t>(b)];
      }
      if (!check_.same(value, expected)) accuse_source(box, mismatch(expected, value));
    }
    return compared;
  }

  Check& check_;
  const ManifestArray* manifest_;
  const SourceReader& read_;
  LevelResult result_;
  std::map<Box, Pd61Value> values_;
  std::int64_t missing_ = 0;
  std::int64_t blocks_compared_ = 0;
  bool from_memory_ = false;
};

}  // namespace

void check_source(Check& check) {
  check.verdict.levels.push_back(Source(check).run());
}

}  // namespace loadstone::detail
