#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadstone/array/box.h"
#include "loadstone/shard/mesh.h"

namespace loadstone {

/// The four comparisons, cheapest first (faults section 1).
enum class Level : std::uint8_t { structure, source, device, replicas };
std::string_view to_string(Level level);  ///< "L0 structure", …

/// One device that holds something else than it should.
struct Accusation {
  enum class Holds : std::uint8_t { other_box, all_zero, unknown, other_structure };
  std::string array;
  Shape shape;  ///< of the array, so that whole dimensions of boxes are written ":"
  Level level = Level::device;
  bool device_known = true;  ///< false: the source itself is at fault, `device` says nothing
  Device device;
  std::int64_t replica_id = 0;
  Box expected_box;
  Holds holds = Holds::unknown;
  std::optional<Box> found_box;             ///< whose bytes were found
  std::vector<Device> found_owners;         ///< devices that should hold found_box
  std::optional<Dims> first_index;          ///< first differing element, array indices
  std::optional<std::int64_t> byte_offset;  ///< of it in the shard's buffer
  std::string expected_bits, found_bits;    ///< hex of that element, most significant byte first
  std::optional<Device> counterpart;        ///< the replica it was compared with
  bool culprit_known = true;                ///< false: one of a differing pair, without a source to tell which
  std::string detail;  ///< for structure: field, expected, found; for source: rows of the block, file
};

/// What a level did.
struct LevelResult {
  Level level = Level::structure;
  bool ran = false;
  bool ok = true;
  std::string note;        ///< why it did not run, or what it covered
  std::int64_t bytes = 0;  ///< looked at
};

/// Proof or accusation. A plain value.
struct Verdict {
  std::vector<LevelResult> levels;
  std::vector<Accusation> accusations;  ///< all accused devices, not only the first
  std::vector<std::string> hints;       ///< "mesh order is not id order", …
  std::int64_t shards = 0;
  std::int64_t bytes_verified = 0;
  double seconds = 0;
  std::string digest;  ///< of the (first) array, when one was taken

  bool ok() const;
};

/// One line a level, then one paragraph an accusation: array, level, device, process, replica, expected box, whose
/// bytes were found, first difference, counterpart.
std::string to_string(const Verdict& verdict);
std::string to_string(const Accusation& accusation);

}  // namespace loadstone
