#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/plan/picture.h"
#include "loadstone/plan/picture_model.h"
#include "loadstone/plan/svg.h"

namespace loadstone {
namespace {

using planning::Fit;
using planning::Panel;
using planning::Picture;
using planning::Rect;
using planning::Svg;

// Beyond this many boxes a panel shows blocks coloured by process instead.
constexpr std::size_t kMostBoxes = 4200;
constexpr int kBlocks = 64;
constexpr std::size_t kLegend = 16;
constexpr std::size_t kBands = 8;
constexpr std::size_t kMostTicks = 200;

constexpr double kMargin = 24;
constexpr double kBoxSize = 24;
constexpr double kOverlap = 0.4;  // of neighbouring blocks, so that no ground shines through
constexpr double kTickSize = 10;
constexpr double kAxisSize = 12;

/// Devices of a box that belong to one process.
struct Group {
  std::int32_t process = 0;
  std::vector<std::int64_t> positions;
};

class Drawing {
 public:
  Drawing(const Sharding& sharding, const Shape& shape, const SvgOptions& options)
      : sharding_(sharding), options_(options), picture_(planning::picture_of(sharding, shape)) {
    crowded_ = picture_.boxes.size() > kMostBoxes;
  }

  std::string draw() {
    double y = heading();
    y = picture_.boxes.empty() ? nothing(y) : panels(y);
    y = remarks(y);
    y = legend(y);
    return svg_.finish(width_, y + kMargin - 8);
  }

 private:
  double heading() {
    double y = kMargin + 14;
    if (!options_.title.empty()) {
      svg_.line_of_text(kMargin, y, 16, options_.title, "font-weight=\"600\"");
      y += 20;
      need_width(2 * kMargin + Svg::text_width(options_.title, 16));
    }
    const std::string text = planning::subtitle(sharding_, picture_.shape);
    svg_.line_of_text(kMargin, y, 12, text, "fill=\"#57606a\"");
    need_width(2 * kMargin + Svg::text_width(text, 12));
    return y + 14;
  }

  double nothing(double y) {
    const Rect frame{kMargin, y, 480, 90};
    svg_.rect(frame, "#f6f8fa", "#8c959f", 1);
    svg_.label(frame, Fit{{"no elements: every device holds an empty box"}, 12, false});
    need_width(frame.x + frame.w + kMargin);
    return y + frame.h + 18;
  }

  /// Width and height of one panel: to scale, but never flatter or steeper than can be read.
  std::pair<double, double> panel_size() const {
    const auto n = picture_.panels.size();
    const double widest = n == 1 ? 680 : n <= 2 ? 420 : n <= 9 ? 290 : 210;
    const double highest = n == 1 ? 440 : widest * 0.72;
    if (picture_.vertical < 0) return {widest, n == 1 ? 84 : 60};
    const double ratio =
        static_cast<double>(picture_.size(picture_.horizontal)) / static_cast<double>(picture_.size(picture_.vertical));
    const double shown = std::clamp(ratio, 0.55, 6.0);
    auto [w, h] = shown >= widest / highest ? std::pair{widest, widest / shown} : std::pair{highest * shown, highest};
    // Many boxes need room for their labels, within the same limits.
    w = std::max(w, std::min(widest, kBoxSize * static_cast<double>(picture_.cuts(picture_.horizontal).size() - 1)));
    h = std::max(h, std::min(highest, kBoxSize * static_cast<double>(picture_.cuts(picture_.vertical).size() - 1)));
    return {w, h};
  }

  double panels(double y) {
    const auto [w, h] = panel_size();
    const std::size_t n = picture_.panels.size();
    const std::size_t columns = n <= 4 ? std::min<std::size_t>(n, w > 300 ? 2 : n) : w > 220 ? 3 : 4;
    const double left = picture_.vertical < 0 ? 0 : 26 + tick_width(picture_.vertical);
    const double right = file_ticks_on(picture_.vertical) ? 34 : 14;
    const double top = (picture_.horizontal < 0 ? 0 : 34.0) + (n > 1 ? 20 : 0);
    const double bottom = file_ticks_on(picture_.horizontal) ? 34 : 16;
    for (std::size_t i = 0; i < n; ++i) {
      const double x0 = kMargin + static_cast<double>(i % columns) * (left + w + right);
      const double y0 = y + static_cast<double>(i / columns) * (top + h + bottom);
      const Rect frame{x0 + left, y0 + top, w, h};
      if (n > 1) {
        svg_.line_of_text(frame.x, y0 + 13, 11, Svg::elided(picture_.panels[i].caption, 11, left + w),
                          "font-weight=\"600\"");
      }
      boxes(picture_.panels[i], frame);
      svg_.rect(frame, "none", "#24292f", 1.2);
      axes(frame);
      need_width(frame.x + w + right + kMargin - 14);
    }
    const auto rows = static_cast<double>((n + columns - 1) / columns);
    return y + rows * (top + h + bottom) + 4;
  }

  void boxes(const Panel& panel, const Rect& frame) {
    if (crowded_) return blocks(panel, frame);
    for (const std::size_t b : panel.boxes) {
      const HeldBox& held = picture_.boxes[b];
      box(held, place(held.box, frame));
    }
  }

  Rect place(const Box& box, const Rect& frame) const {
    Rect out = frame;
    if (picture_.horizontal >= 0) {
      const double unit = frame.w / static_cast<double>(picture_.size(picture_.horizontal));
      out.x = frame.x + unit * static_cast<double>(box.begin[picture_.horizontal]);
      out.w = unit * static_cast<double>(box.extent(picture_.horizontal));
    }
    if (picture_.vertical >= 0) {
      const double unit = frame.h / static_cast<double>(picture_.size(picture_.vertical));
      out.y = frame.y + unit * static_cast<double>(box.begin[picture_.vertical]);
      out.h = unit * static_cast<double>(box.extent(picture_.vertical));
    }
    return out;
  }

  std::vector<Group> groups_of(const HeldBox& held) const {
    std::vector<Group> out;
    std::map<std::int32_t, std::size_t> index;
    for (const std::int64_t pos : held.positions) {
      const std::int32_t process = sharding_.devices()[static_cast<std::size_t>(pos)].process;
      const auto [at, fresh] = index.try_emplace(process, out.size());
      if (fresh) out.push_back({process, {}});
      out[at->second].positions.push_back(pos);
    }
    return out;
  }

  /// A box in bands, one a process, each with its devices; too many bands become one grey box with a count.
  void box(const HeldBox& held, const Rect& rect) {
    const std::vector<Group> groups = groups_of(held);
    const auto n = static_cast<double>(groups.size());
    const bool across = rect.w >= rect.h;
    const bool banded = groups.size() == 1 || (groups.size() <= kBands && (across ? rect.w : rect.h) / n >= 9);
    svg_.open_group(tooltip(held));
    if (banded) {
      banded_ = banded_ || groups.size() > 1;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const auto k = static_cast<double>(g);
        Rect band = rect;
        (across ? band.w : band.h) /= n;
        (across ? band.x : band.y) += k * (across ? band.w : band.h);
        svg_.fill(band, groups[g].process);
        label(band, groups[g].positions);
      }
    } else {
      grey_ = true;
      svg_.rect(rect, "#d0d7de", "", 0);
      label(rect, held.positions);
    }
    const double thinnest = std::min(rect.w, rect.h);
    svg_.rect(rect, "none", "#24292f", thinnest < 3 ? 0.2 : thinnest < 8 ? 0.4 : 0.8);
    svg_.close_group();
  }

  /// Names the devices in full, else as ranges, else the first one and how many more, else how many.
  void label(const Rect& rect, const std::vector<std::int64_t>& positions) {
    const double w = rect.w - (rect.w < 30 ? 2 : 4);
    const double h = rect.h - (rect.h < 30 ? 2 : 4);
    auto words = planning::fit(planning::device_words(sharding_, positions), w, h);
    if (!words) words = planning::fit(planning::device_ranges(sharding_, positions), w, h);
    if (!words && positions.size() > 1) {
      const std::string first = planning::device_words(sharding_, {positions.front()}).front();
      words = planning::fit({first, cat("+", positions.size() - 1)}, w, h);
      if (!words) words = planning::fit({cat(positions.size(), "x")}, w, h);
    }
    if (words) svg_.label(rect, *words);
  }

  std::string tooltip(const HeldBox& held) const {
    std::vector<std::string> devices;
    for (const std::int64_t pos : held.positions) {
      const Device& device = sharding_.devices()[static_cast<std::size_t>(pos)];
      devices.push_back(cat("d", device.id, " ", place_name(device), " process ", device.process));
    }
    const std::size_t most = picture_.boxes.size() > 512 ? 1 : 12;
    return cat(to_string(held.box, picture_.shape), ": ", join_first(devices, most));
  }

  /// Too many boxes to draw: blocks of them, each in the colour of the process at its centre.
  void blocks(const Panel& panel, const Rect& frame) {
    const int across = static_cast<int>(std::min<std::int64_t>(kBlocks, picture_.size(picture_.horizontal)));
    const int down = static_cast<int>(std::min<std::int64_t>(kBlocks, picture_.size(picture_.vertical)));
    const double w = frame.w / across;
    const double h = frame.h / down;
    for (const std::size_t b : panel.boxes) {
      const Rect at = place(picture_.boxes[b].box, frame);
      const std::int64_t first = picture_.boxes[b].positions.front();
      const std::int32_t process = sharding_.devices()[static_cast<std::size_t>(first)].process;
      for (int i = first_centre(at.y - frame.y, h); i < down && (i + 0.5) * h < at.y - frame.y + at.h; ++i) {
        for (int k = first_centre(at.x - frame.x, w); k < across && (k + 0.5) * w < at.x - frame.x + at.w; ++k) {
          svg_.fill({frame.x + k * w, frame.y + i * h, w + kOverlap, h + kOverlap}, process);
        }
      }
    }
  }
  static int first_centre(double from, double step) { return static_cast<int>(std::ceil(from / step - 0.5)); }

  double tick_width(int dim) const { return dim < 0 ? 0 : Svg::text_width(cat(picture_.shape[dim]), kTickSize) + 8; }

  void axes(const Rect& frame) {
    if (picture_.horizontal >= 0) {
      const std::string text = planning::axis_label(sharding_, picture_.shape, picture_.horizontal);
      svg_.line_of_text(frame.x, frame.y - 20, kAxisSize, Svg::elided(text, kAxisSize, frame.w));
      ticks_across(frame);
      if (file_ticks_on(picture_.horizontal)) files_across(frame);
    }
    if (picture_.vertical >= 0) {
      const std::string text = planning::axis_label(sharding_, picture_.shape, picture_.vertical);
      const double x = frame.x - tick_width(picture_.vertical) - 8;
      svg_.turned_text(x, frame.y + frame.h / 2, kAxisSize, Svg::elided(text, kAxisSize, frame.h));
      ticks_down(frame);
      if (file_ticks_on(picture_.vertical)) files_down(frame);
    }
  }

  /// Positions of the cuts along an axis of `length` pixels that leave each label `room` pixels; both ends always.
  std::vector<std::int64_t> spaced_cuts(int dim, double length, double room) const {
    const std::vector<std::int64_t> cuts = picture_.cuts(dim);
    const double unit = length / static_cast<double>(picture_.size(dim));
    std::vector<std::int64_t> out{cuts.front()};
    for (std::size_t i = 1; i + 1 < cuts.size(); ++i) {
      const double here = unit * static_cast<double>(cuts[i]);
      if (here - unit * static_cast<double>(out.back()) >= room && length - here >= room) out.push_back(cuts[i]);
    }
    out.push_back(cuts.back());
    return out;
  }

  void ticks_across(const Rect& frame) {
    const int dim = picture_.horizontal;
    const double room = Svg::text_width(cat(picture_.shape[dim]), kTickSize) + 10;
    for (const std::int64_t cut : spaced_cuts(dim, frame.w, room)) {
      const double x = frame.x + frame.w * static_cast<double>(cut) / static_cast<double>(picture_.shape[dim]);
      svg_.line(x, frame.y - 4, x, frame.y, "#57606a", 0.8);
      svg_.line_of_text(x, frame.y - 7, kTickSize, cat(cut), "text-anchor=\"middle\" fill=\"#57606a\"");
    }
  }
  void ticks_down(const Rect& frame) {
    const int dim = picture_.vertical;
    for (const std::int64_t cut : spaced_cuts(dim, frame.h, 14)) {
      const double y = frame.y + frame.h * static_cast<double>(cut) / static_cast<double>(picture_.shape[dim]);
      svg_.line(frame.x - 4, y, frame.x, y, "#57606a", 0.8);
      svg_.line_of_text(frame.x - 6, y + 3.5, kTickSize, cat(cut), "text-anchor=\"end\" fill=\"#57606a\"");
    }
  }

  bool file_ticks_on(int dim) const {
    return dim == 0 && options_.row_bounds != nullptr && options_.row_bounds->size() > 1;
  }
  std::string files_text() const {
    const auto n = static_cast<std::int64_t>(options_.row_bounds->size()) - 1;
    return cat(format_count(n), n == 1 ? " file" : " files");
  }
  /// Borders of files; only the ends where there are too many to tell apart.
  std::vector<double> file_borders() const {
    const std::vector<std::int64_t>& bounds = *options_.row_bounds;
    if (bounds.size() > kMostTicks) return {0, 1};
    std::vector<double> out;
    for (const std::int64_t bound : bounds) {
      out.push_back(static_cast<double>(bound) / static_cast<double>(std::max<std::int64_t>(picture_.shape[0], 1)));
    }
    return out;
  }
  void files_across(const Rect& frame) {
    const double y = frame.y + frame.h + 4;
    svg_.line(frame.x, y, frame.x + frame.w, y, "#0969da", 0.8);
    for (const double at : file_borders()) {
      svg_.line(frame.x + at * frame.w, y, frame.x + at * frame.w, y + 6, "#0969da", 0.8);
    }
    svg_.line_of_text(frame.x + frame.w, y + 17, kTickSize, files_text(), "text-anchor=\"end\" fill=\"#0969da\"");
  }
  void files_down(const Rect& frame) {
    const double x = frame.x + frame.w + 4;
    svg_.line(x, frame.y, x, frame.y + frame.h, "#0969da", 0.8);
    for (const double at : file_borders()) {
      svg_.line(x, frame.y + at * frame.h, x + 6, frame.y + at * frame.h, "#0969da", 0.8);
    }
    svg_.turned_text(x + 18, frame.y + frame.h / 2, kTickSize, Svg::elided(files_text(), kTickSize, frame.h),
                     "#0969da");
  }

  double remark(double y, const std::string& text) {
    for (const std::string& line : Svg::wrapped(text, 11, std::max(width_, 520.0) - 2 * kMargin)) {
      svg_.line_of_text(kMargin, y + 10, 11, line, "fill=\"#57606a\"");
      need_width(2 * kMargin + Svg::text_width(line, 11));
      y += 16;
    }
    return y;
  }

  double remarks(double y) {
    const auto [w, h] = panel_size();
    if (!picture_.boxes.empty() && picture_.vertical >= 0) {
      const double across = w / static_cast<double>(picture_.size(picture_.horizontal));
      const double down = h / static_cast<double>(picture_.size(picture_.vertical));
      if (across / down > 1.01 || down / across > 1.01) y = remark(y, "the two axes have different scales");
    }
    if (grey_) y = remark(y, "grey boxes are held by several processes");
    if (overlapping()) y = remark(y, "boxes overlap: those drawn later hide parts of others");
    if (banded_) y = remark(y, "colours inside one box are copies: each of these processes holds the whole box");
    for (const int dim : picture_.whole_dims) {
      y = remark(y, cat("dim ", dim, " (", format_count(picture_.shape[dim]), ") is whole in every box"));
    }
    if (picture_.more_panels > 0) y = remark(y, cat("and ", format_count(picture_.more_panels), " more slices"));
    if (crowded_) {
      y = remark(y,
                 cat(format_count(static_cast<std::int64_t>(picture_.boxes.size())),
                     " boxes are too many to draw: the blocks show which process holds the element at their centre"));
    }
    if (!picture_.idle.empty()) {
      const auto n = static_cast<std::int64_t>(picture_.idle.size());
      y = remark(y, cat(format_count(n), n == 1 ? " device holds" : " devices hold",
                        " an empty box: ", planning::device_list(sharding_, picture_.idle, 120)));
    }
    return y;
  }

  bool overlapping() const {
    if (sharding_.kind() != Sharding::Kind::boxes || picture_.boxes.size() > 512) return false;
    for (std::size_t a = 0; a < picture_.boxes.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (overlaps(picture_.boxes[a].box, picture_.boxes[b].box)) return true;
      }
    }
    return false;
  }

  double legend(double y) {
    std::map<std::int32_t, std::vector<std::int64_t>> processes;
    for (std::int64_t pos = 0; pos < sharding_.num_devices(); ++pos) {
      processes[sharding_.devices()[static_cast<std::size_t>(pos)].process].push_back(pos);
    }
    y += 8;
    const double column = 250;
    if (processes.size() > 4) need_width(2 * kMargin + 2 * column);
    const auto columns = static_cast<std::size_t>(std::max(1.0, std::floor((width_ - 2 * kMargin) / column)));
    std::size_t i = 0;
    for (const auto& [process, positions] : processes) {
      if (i == kLegend) break;
      const double x = kMargin + static_cast<double>(i % columns) * column;
      const double line = y + static_cast<double>(i / columns) * 20;
      svg_.fill({x, line, 14, 14}, process);
      svg_.rect({x, line, 14, 14}, "none", "#24292f", 0.8);
      const std::string name = cat("process ", process, ": ");
      const auto room = static_cast<std::size_t>((column - 30) / Svg::text_width("d", 11)) - name.size();
      svg_.line_of_text(x + 20, line + 11, 11, name + planning::device_list(sharding_, positions, room));
      ++i;
    }
    need_width(2 * kMargin + column);
    y += static_cast<double>((i + columns - 1) / columns) * 20;
    if (processes.size() > i) {
      y = remark(y, cat("and ", format_count(static_cast<std::int64_t>(processes.size() - i)),
                        " more processes; colours and hatching repeat"));
    }
    return y;
  }
  void need_width(double width) { width_ = std::max(width_, width); }

  const Sharding& sharding_;
  const SvgOptions& options_;
  Picture picture_;
  Svg svg_;
  double width_ = 0;
  bool crowded_ = false;
  bool banded_ = false;
  bool grey_ = false;
};

}  // namespace

std::string draw_svg(const Sharding& sharding, const Shape& shape, const SvgOptions& options) {
  return Drawing(sharding, shape, options).draw();
}

}  // namespace loadstone
