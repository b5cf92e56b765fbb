#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "loadstone/shard/process_view.h"
#include "loadstone/verify/verify.h"

namespace loadstone::detail {

/// A held shard that has the right structure.
struct Holder {
  const HeldShard* held = nullptr;
  Shard shard;  ///< as the sharding says
  Dims strides_bytes;
  bool readable = false;            ///< in host memory, or in that of a GPU here, so that its bytes can be looked at
  bool on_gpu = false;              ///< in a GPU's memory
  std::optional<Pd61Value> digest;  ///< of its memory
  bool accused = false;             ///< at L1 or L2
  std::optional<Box> found_box;     ///< whose bytes it holds, when that was found out

  /// Address of the first element of `slice` (array indices inside the shard's box): in host memory. What is on a GPU
  /// is copied as a whole on first use, which only an accusation should cause.
  const std::byte* at(const Box& slice) const;
  /// Copies a contiguous slice of a contiguous shard out of a GPU's memory.
  void fetch(const Box& slice, std::int64_t bytes, std::byte* to) const;
  /// The same as at() in the memory where the shard is.
  const std::byte* address(const Box& slice) const;

 private:
  struct Mirror {
    std::once_flag made;
    std::shared_ptr<Memory> memory;
    std::int64_t shift = 0;
  };
  std::shared_ptr<Mirror> mirror_ = std::make_shared<Mirror>();
};

/// What the levels share while one array is checked.
struct Check {
  const std::string& name;
  DType dtype;
  const Shape& shape;
  const Sharding& sharding;
  const VerifyOptions& options;
  const ThreadPool& pool;
  Pd61 rule;

  Check(const std::string& array, DType type, const Shape& global, const Sharding& declared, const VerifyOptions& asked,
        const ThreadPool& workers)
      : name(array),
        dtype(type),
        shape(global),
        sharding(declared),
        options(asked),
        pool(workers),
        rule(global, type, {}, asked.lanes) {}

  std::vector<Holder> holders;                     ///< mesh order
  std::map<Box, std::vector<std::size_t>> by_box;  ///< non-empty boxes and who holds them
  bool disjoint = true;                            ///< the distinct boxes held here
  bool covered = false;                            ///< they are the whole array
  bool sum_proves = false;                         ///< one copy of each box is proven by a sum (L1)
  bool sum_failed = false;                         ///< that sum was wrong and the devices may be to blame
  Verdict verdict;

  /// Distinct boxes of the whole mesh and who should hold them, made on first use.
  const std::vector<HeldBox>& all_boxes();
  std::vector<Device> owners_of(const Box& box);
  Accusation accuse(const Shard& shard, Level level) const;
  /// Equal as far as both were taken: a second lane counts when asked for and present.
  bool same(const Pd61Value& a, const Pd61Value& b) const;
  /// Digest of the bytes of `box` as they were read, by any of its holders.
  std::optional<Pd61Value> as_read(const std::vector<std::size_t>& holders_of_box) const;
  std::int64_t bytes_of(const Box& box) const { return dtype.nbytes(box.num_elems()); }

 private:
  std::optional<std::vector<HeldBox>> all_boxes_;
  std::map<Box, std::size_t> index_of_box_;
};

void check_structure(Check& check, const std::vector<HeldShard>& held);
void check_source(Check& check);
void check_device(Check& check);
void check_replicas(Check& check);
void add_hints(Check& check);

/// Digests the memory of those of these holders that are readable, not empty and not digested yet.
void digest_memory(Check& check, const std::vector<std::size_t>& which);
/// Digests of boxes of the source, read in windows.
std::vector<Pd61Value> digest_source(const Check& check, const std::vector<Box>& boxes);
/// Accuses those of the holders whose bytes really differ from the source, and says whose they are. Returns how many.
std::int64_t accuse_by_content(Check& check, Level level, const std::vector<std::size_t>& suspects);
/// "0, 2, 4"
std::string ids_text(const std::vector<Device>& devices);

// ---- comparing bytes, position by position ----

/// Delivers the C-order bytes of `slice` (relative to the first index of the shard), using scratch when it must.
using Fetch = std::function<const std::byte*(const Box& slice, std::byte* scratch)>;
Fetch memory_of(const Check& check, const Holder& holder);
Fetch source_of(const Check& check, const Box& box);

struct Difference {
  Dims index;  ///< relative to the first index of the shard
  std::string expected_bits, found_bits;
};
/// Two windows, made on first use.
class Scratch {
 public:
  static constexpr std::int64_t kBytes = 256 << 10;
  std::byte* a();
  std::byte* b();

 private:
  std::shared_ptr<Memory> a_, b_;
};
std::optional<Difference> first_difference(const Shape& shape, DType dtype, const Fetch& expected, const Fetch& found,
                                           Scratch& scratch);
bool all_zero(const Shape& shape, DType dtype, const Fetch& bytes, Scratch& scratch);
/// Writes a difference into an accusation.
void set_difference(Accusation& accusation, const Difference& difference, const Holder& holder, DType dtype);

}  // namespace loadstone::detail
