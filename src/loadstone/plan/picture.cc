#include "loadstone/plan/picture.h"

#include <algorithm>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/plan/describe.h"
#include "loadstone/plan/picture_model.h"

namespace loadstone::planning {
namespace {

bool is_split(const Picture& picture, int dim) {
  return std::any_of(picture.boxes.begin(), picture.boxes.end(),
                     [&](const HeldBox& held) { return held.box.extent(dim) < picture.shape[dim]; });
}

/// Which dimensions are drawn; returns the other split ones.
std::vector<int> lay_out(Picture& picture) {
  std::vector<int> split;
  std::vector<int> whole;
  for (int d = 0; d < picture.shape.size(); ++d) (is_split(picture, d) ? split : whole).push_back(d);
  std::vector<int> drawn;
  while (drawn.size() < 2 && !split.empty()) {
    drawn.push_back(split.front());
    split.erase(split.begin());
  }
  while (drawn.size() < 2 && !whole.empty()) {
    drawn.push_back(whole.front());
    whole.erase(whole.begin());
  }
  std::sort(drawn.begin(), drawn.end());
  if (!drawn.empty()) picture.horizontal = drawn.back();
  if (drawn.size() == 2) picture.vertical = drawn.front();
  picture.whole_dims = std::move(whole);
  return split;
}

struct Interval {
  std::int64_t begin, end;
};

void add_panels(Picture& picture, const std::vector<int>& slice_dims) {
  std::vector<std::vector<Interval>> intervals;
  std::int64_t count = 1;
  for (const int dim : slice_dims) {
    const std::vector<std::int64_t> cuts = picture.cuts(dim);
    std::vector<Interval> steps;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) steps.push_back({cuts[i], cuts[i + 1]});
    count *= static_cast<std::int64_t>(steps.size());
    intervals.push_back(std::move(steps));
    if (count > (std::int64_t{1} << 32)) break;
  }
  const std::int64_t shown = std::min(count, Picture::kMostPanels);
  picture.more_panels = count - shown;
  for (std::int64_t number = 0; number < shown; ++number) {
    Panel panel;
    std::vector<Interval> at(intervals.size());
    std::int64_t rest = number;
    for (std::size_t i = intervals.size(); i > 0; --i) {
      const auto n = static_cast<std::int64_t>(intervals[i - 1].size());
      at[i - 1] = intervals[i - 1][static_cast<std::size_t>(rest % n)];
      rest /= n;
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      panel.caption += cat(i > 0 ? ", " : "", "dim ", slice_dims[i], " = ", at[i].begin, ":", at[i].end);
    }
    for (std::size_t b = 0; b < picture.boxes.size(); ++b) {
      const Box& box = picture.boxes[b].box;
      bool inside = true;
      for (std::size_t i = 0; i < at.size(); ++i) {
        inside = inside && box.begin[slice_dims[i]] <= at[i].begin && at[i].end <= box.end[slice_dims[i]];
      }
      if (inside) panel.boxes.push_back(b);
    }
    picture.panels.push_back(std::move(panel));
  }
}

}  // namespace

std::vector<std::int64_t> Picture::cuts(int dim) const {
  std::vector<std::int64_t> out{0, size(dim)};
  if (dim >= 0) {
    for (const HeldBox& held : boxes) {
      out.push_back(held.box.begin[dim]);
      out.push_back(held.box.end[dim]);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Picture picture_of(const Sharding& sharding, const Shape& shape) {
  Picture picture;
  picture.shape = shape;
  for (HeldBox& held : unique_boxes(sharding, shape)) {
    if (held.box.empty()) {
      picture.idle.insert(picture.idle.end(), held.positions.begin(), held.positions.end());
    } else {
      picture.boxes.push_back(std::move(held));
    }
  }
  std::sort(picture.idle.begin(), picture.idle.end());
  const std::vector<int> slice_dims = lay_out(picture);
  add_panels(picture, slice_dims);
  return picture;
}

std::string axis_label(const Sharding& sharding, const Shape& shape, int dim) {
  std::string out = cat("dim ", dim, ": ", format_count(shape[dim]));
  if (sharding.kind() == Sharding::Kind::row_tiles && dim == 0) {
    const RowTiles tiles(shape[0], sharding.num_devices(), sharding.over_decompose());
    return out + cat(" in ", format_count(tiles.num_tiles), tiles.num_tiles == 1 ? " tile" : " tiles");
  }
  if (sharding.kind() != Sharding::Kind::named) return out;
  const PartitionSpec spec = sharding.spec().canonical(sharding.mesh(), shape.size());
  const PartitionSpec::Entry& axes = spec.entries()[static_cast<std::size_t>(dim)];
  if (axes.empty()) return out;
  std::vector<std::string> names;
  for (const std::string& axis : axes) names.push_back(printable(axis));
  return out + " over " + join(names, ", ");
}

std::vector<std::string> device_words(const Sharding& sharding, const std::vector<std::int64_t>& positions) {
  std::vector<std::string> out;
  for (const std::int64_t pos : positions) {
    out.push_back(cat("d", sharding.devices()[static_cast<std::size_t>(pos)].id));
  }
  return out;
}

std::vector<std::string> device_ranges(const Sharding& sharding, const std::vector<std::int64_t>& positions,
                                       std::vector<std::int64_t>* devices_of) {
  std::vector<std::string> out;
  const auto id = [&](std::size_t i) { return sharding.devices()[static_cast<std::size_t>(positions[i])].id; };
  for (std::size_t i = 0; i < positions.size();) {
    std::size_t end = i + 1;
    while (end < positions.size() && id(end) - 1 == id(end - 1)) ++end;
    if (end - i < 3) end = i + 1;
    out.push_back(end - i == 1 ? cat("d", id(i)) : cat("d", id(i), "-d", id(end - 1)));
    if (devices_of != nullptr) devices_of->push_back(static_cast<std::int64_t>(end - i));
    i = end;
  }
  return out;
}

std::string device_list(const Sharding& sharding, const std::vector<std::int64_t>& positions, std::size_t width) {
  std::vector<std::int64_t> counts;
  const std::vector<std::string> words = device_ranges(sharding, positions, &counts);
  auto left = static_cast<std::int64_t>(positions.size());
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string next = cat(out, i > 0 ? " " : "", words[i]);
    const std::int64_t rest = left - counts[i];
    const std::string more = rest > 0 ? cat(" and ", format_count(rest), " more") : "";
    if (i > 0 && next.size() + more.size() > width) return cat(out, " and ", format_count(left), " more");
    out = next;
    left = rest;
  }
  return out;
}

std::string subtitle(const Sharding& sharding, const Shape& shape) {
  return cat(to_string(shape), ", ", describe(sharding));
}

}  // namespace loadstone::planning
