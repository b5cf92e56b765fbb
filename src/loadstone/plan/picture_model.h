#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadstone/shard/process_view.h"
#include "loadstone/shard/sharding.h"

/// Inside plan/: what a drawing of a sharding shows, before it becomes text or SVG.
namespace loadstone::planning {

/// One cut through the array: what is drawn in one frame.
struct Panel {
  std::string caption;             ///< "dim 2 = 0:1, dim 3 = 2:4"; empty for a single panel
  std::vector<std::size_t> boxes;  ///< indices into Picture::boxes
};

struct Picture {
  Shape shape;
  int vertical = -1;               ///< dimension drawn downwards, -1 = none
  int horizontal = -1;             ///< dimension drawn to the right, -1 = none
  std::vector<HeldBox> boxes;      ///< distinct, not empty
  std::vector<Panel> panels;       ///< at least one; the first kMostPanels
  std::int64_t more_panels = 0;    ///< not in `panels`
  std::vector<std::int64_t> idle;  ///< mesh positions of devices with an empty box
  std::vector<int> whole_dims;     ///< neither drawn nor split

  static constexpr std::int64_t kMostPanels = 24;

  std::int64_t size(int dim) const { return dim < 0 ? 1 : shape[dim]; }
  /// Where the boxes begin or end on a dimension, ascending, with 0 and the size.
  std::vector<std::int64_t> cuts(int dim) const;
};

/// Up to two dimensions are drawn: those that are split first, then the first ones. O(devices).
Picture picture_of(const Sharding& sharding, const Shape& shape);

/// "dim 0: 64 over x, y" (or "64 in 4 tiles", or "64").
std::string axis_label(const Sharding& sharding, const Shape& shape, int dim);
/// "d0", "d2", …: devices as words.
std::vector<std::string> device_words(const Sharding& sharding, const std::vector<std::int64_t>& positions);
/// The same with three or more successive ids as one word: "d0-d7", "d12". `devices_of` (when not null) gets the number
/// of devices behind each word.
std::vector<std::string> device_ranges(const Sharding& sharding, const std::vector<std::int64_t>& positions,
                                       std::vector<std::int64_t>* devices_of = nullptr);
/// The ranges that fit into `width` characters, then "and N more" devices.
std::string device_list(const Sharding& sharding, const std::vector<std::int64_t>& positions, std::size_t width);
/// "(64, 128), mesh x=8, P(None, 'x')"
std::string subtitle(const Sharding& sharding, const Shape& shape);

}  // namespace loadstone::planning
