#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/plan/describe.h"
#include "loadstone/plan/picture.h"
#include "loadstone/plan/picture_model.h"

namespace loadstone {
namespace {

using planning::Panel;
using planning::Picture;

constexpr std::size_t kMostRows = 24;
constexpr std::size_t kListed = 32;
constexpr std::size_t kWide = 12;  // letters of a label before it is wrapped

/// What is written in a box: its devices, then its processes, in lines of at most `width`.
std::vector<std::string> label_lines(const Sharding& sharding, const HeldBox& held, std::size_t width) {
  std::vector<std::string> words = planning::device_words(sharding, held.positions);
  std::vector<std::string> processes;
  for (const std::int64_t pos : held.positions) {
    std::string process = cat("p", sharding.devices()[static_cast<std::size_t>(pos)].process);
    if (std::find(processes.begin(), processes.end(), process) == processes.end()) processes.push_back(process);
  }
  if (words.size() > 8) words = {words[0], cat("+", words.size() - 1)};
  if (processes.size() > 4) processes = {processes[0], cat("+", processes.size() - 1)};
  std::vector<std::string> lines;
  for (const auto& list : {words, processes}) {
    std::string line;
    for (const std::string& word : list) {
      if (!line.empty() && line.size() + 1 + word.size() > width) lines.push_back(std::exchange(line, ""));
      line += cat(line.empty() ? "" : " ", word);
    }
    lines.push_back(line);
  }
  return lines;
}

/// A panel on a grid of cells between the cuts; each cell knows its box.
class Grid {
 public:
  Grid(const Sharding& sharding, const Picture& picture, const Panel& panel)
      : sharding_(sharding),
        picture_(picture),
        rows_(picture.cuts(picture.vertical)),
        cols_(picture.cuts(picture.horizontal)) {
    usable_ = rows_.size() - 1 <= kMostRows && cols_.size() > 1 && rows_.size() > 1 && cols_.size() <= 256;
    if (!usable_) return;
    cells_.assign((rows_.size() - 1) * (cols_.size() - 1), -1);
    for (const std::size_t b : panel.boxes) place(static_cast<int>(b));
    usable_ = usable_ && std::find(cells_.begin(), cells_.end(), -1) == cells_.end();
  }

  /// The drawing, or nullopt when it does not fit into `width` columns or boxes overlap.
  std::optional<std::string> draw(std::size_t width) {
    if (!usable_) return std::nullopt;
    std::vector<std::string> row_names;
    std::size_t margin = 0;
    for (std::size_t r = 0; r + 1 < rows_.size(); ++r) {
      row_names.push_back(picture_.vertical < 0 ? "" : cat(rows_[r], ":", rows_[r + 1]));
      margin = std::max(margin, row_names.back().size());
    }
    margin += 2;
    for (const std::size_t target : {kWide, std::size_t{7}, std::size_t{1}}) {
      if (!size_columns(target, width > margin ? width - margin : 0)) continue;
      return render(row_names, margin);
    }
    return std::nullopt;
  }

 private:
  int cell(std::size_t r, std::size_t c) const { return cells_[r * (cols_.size() - 1) + c]; }
  static std::size_t index_of(const std::vector<std::int64_t>& cuts, std::int64_t value) {
    return static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), value) - cuts.begin());
  }

  struct Span {
    std::size_t r0 = 0, r1 = 1, c0 = 0, c1 = 1;
  };
  Span span_of(int b) const {
    const Box& box = picture_.boxes[static_cast<std::size_t>(b)].box;
    Span out;
    if (picture_.vertical >= 0) {
      out.r0 = index_of(rows_, box.begin[picture_.vertical]);
      out.r1 = index_of(rows_, box.end[picture_.vertical]);
    }
    if (picture_.horizontal >= 0) {
      out.c0 = index_of(cols_, box.begin[picture_.horizontal]);
      out.c1 = index_of(cols_, box.end[picture_.horizontal]);
    }
    return out;
  }

  void place(int b) {
    const Span at = span_of(b);
    for (std::size_t r = at.r0; r < at.r1; ++r) {
      for (std::size_t c = at.c0; c < at.c1; ++c) {
        int& owner = cells_[r * (cols_.size() - 1) + c];
        usable_ = usable_ && owner < 0;
        owner = b;
      }
    }
  }

  /// Chooses column widths in proportion, wide enough for labels wrapped at `target`.
  bool size_columns(std::size_t target, std::size_t room) {
    const std::size_t n = cols_.size() - 1;
    widths_.assign(n, 2);
    // Room for the intervals above the columns, if there is.
    for (std::size_t c = 0; c < n && target == kWide; ++c) {
      widths_[c] = std::max(widths_[c], cat(cols_[c], ":", cols_[c + 1]).size());
    }
    heights_.assign(rows_.size() - 1, 1);
    labels_.clear();
    std::vector<int> seen;
    for (const int b : cells_) {
      if (std::find(seen.begin(), seen.end(), b) != seen.end()) continue;
      seen.push_back(b);
      const Span at = span_of(b);
      std::vector<std::string> lines = label_lines(sharding_, picture_.boxes[static_cast<std::size_t>(b)], target);
      std::size_t longest = 0;
      for (const std::string& line : lines) longest = std::max(longest, line.size());
      const std::size_t across = at.c1 - at.c0;
      for (std::size_t c = at.c0; c < at.c1; ++c)
        widths_[c] = std::max(widths_[c], (longest + 2 + across - 1) / across);
      const std::size_t down = at.r1 - at.r0;
      for (std::size_t r = at.r0; r < at.r1; ++r) heights_[r] = std::max(heights_[r], (lines.size() + down - 1) / down);
      labels_.push_back({b, std::move(lines)});
    }
    std::size_t total = n + 1;
    for (const std::size_t w : widths_) total += w;
    if (total > room) return false;
    // Spare columns go where the boxes are wider, up to a frame of 72.
    const std::size_t frame = std::min<std::size_t>(room, std::max<std::size_t>(total, 72));
    const double scale = static_cast<double>(frame - n - 1) / static_cast<double>(cols_.back() - cols_.front());
    for (std::size_t c = 0; c < n && total < frame; ++c) {
      const auto wish = static_cast<std::size_t>(scale * static_cast<double>(cols_[c + 1] - cols_[c]));
      const std::size_t more = wish > widths_[c] ? std::min(wish - widths_[c], frame - total) : 0;
      widths_[c] += more;
      total += more;
    }
    return true;
  }

  std::string render(const std::vector<std::string>& row_names, std::size_t margin) const {
    std::vector<std::size_t> x{0};
    std::vector<std::size_t> y{0};
    for (const std::size_t w : widths_) x.push_back(x.back() + w + 1);
    for (const std::size_t h : heights_) y.push_back(y.back() + h + 1);
    std::vector<std::string> canvas(y.back() + 1, std::string(x.back() + 1, ' '));
    for (const auto& [b, lines] : labels_) {
      const Span at = span_of(b);
      frame(canvas, x[at.c0], y[at.r0], x[at.c1], y[at.r1]);
      const std::size_t top = y[at.r0] + 1 + (y[at.r1] - y[at.r0] - 1 - lines.size()) / 2;
      for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::size_t inner = x[at.c1] - x[at.c0] - 1;
        canvas[top + i].replace(x[at.c0] + 1 + (inner - lines[i].size()) / 2, lines[i].size(), lines[i]);
      }
    }
    std::string out = header(x, margin);
    for (std::size_t line = 0; line < canvas.size(); ++line) {
      std::string name;
      for (std::size_t r = 0; r + 1 < y.size(); ++r) {
        if (line == y[r] + 1 + (heights_[r] - 1) / 2) name = row_names[r];
      }
      out += cat(std::string(margin - 1 - name.size(), ' '), name, " ", canvas[line], "\n");
    }
    return out;
  }

  /// The intervals of the columns, as many as fit.
  std::string header(const std::vector<std::size_t>& x, std::size_t margin) const {
    if (picture_.horizontal < 0) return "";
    std::string line(margin + x.back() + 1, ' ');
    for (std::size_t c = 0; c + 1 < cols_.size(); ++c) {
      const std::string name = cat(cols_[c], ":", cols_[c + 1]);
      if (name.size() > widths_[c]) continue;
      line.replace(margin + x[c] + 1 + (widths_[c] - name.size()) / 2, name.size(), name);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line.empty() ? "" : line + "\n";
  }

  static void frame(std::vector<std::string>& canvas, std::size_t x0, std::size_t y0, std::size_t x1, std::size_t y1) {
    for (std::size_t i = x0; i <= x1; ++i) {
      for (const std::size_t line : {y0, y1}) canvas[line][i] = canvas[line][i] == ' ' ? '-' : canvas[line][i];
    }
    for (std::size_t line = y0; line <= y1; ++line) {
      for (const std::size_t i : {x0, x1}) canvas[line][i] = canvas[line][i] == ' ' ? '|' : canvas[line][i];
    }
    for (const std::size_t line : {y0, y1}) canvas[line][x0] = canvas[line][x1] = '+';
  }

  const Sharding& sharding_;
  const Picture& picture_;
  std::vector<std::int64_t> rows_, cols_;
  std::vector<int> cells_;
  bool usable_ = false;
  std::vector<std::size_t> widths_, heights_;
  std::vector<std::pair<int, std::vector<std::string>>> labels_;
};

std::string list(const Sharding& sharding, const Picture& picture, std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t b = 0; b < picture.boxes.size() && b < kListed; ++b) {
    const HeldBox& held = picture.boxes[b];
    const std::int32_t process = sharding.devices()[static_cast<std::size_t>(held.positions[0])].process;
    const std::vector<std::string> words = planning::device_words(sharding, held.positions);
    rows.push_back({to_string(held.box, picture.shape), cat("p", process),
                    words.size() > 8 ? join_first(words, 8) : join(words, " ")});
  }
  std::string out;
  for (const std::string& line : split(planning::table(rows, "  "), '\n')) {
    if (line.empty()) continue;
    out += (line.size() > width && width > 3 ? line.substr(0, width - 3) + "..." : line) + "\n";
  }
  if (picture.boxes.size() > kListed) {
    out += cat("  and ", format_count(static_cast<std::int64_t>(picture.boxes.size() - kListed)), " more boxes\n");
  }
  return out;
}

/// Cuts text at spaces into lines of at most `width`.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string out;
  std::string line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > width) out += std::exchange(line, "") + "\n";
    line += cat(line.empty() ? "" : " ", word);
  }
  return out + line + "\n";
}

std::string axes_line(const Sharding& sharding, const Picture& picture) {
  std::string out;
  if (picture.vertical >= 0)
    out += cat(planning::axis_label(sharding, picture.shape, picture.vertical), " downwards; ");
  if (picture.horizontal >= 0)
    out += cat(planning::axis_label(sharding, picture.shape, picture.horizontal), " to the right");
  return out;
}

}  // namespace

std::string draw_text(const Sharding& sharding, const Shape& shape, int width) {
  const auto columns = static_cast<std::size_t>(std::max(width, 20));
  const Picture picture = planning::picture_of(sharding, shape);
  std::string out = wrapped(planning::subtitle(sharding, shape), columns);
  if (picture.boxes.empty()) {
    out += wrapped(cat("no elements: every device holds an empty box"), columns);
  } else {
    if (picture.horizontal >= 0) out += wrapped(axes_line(sharding, picture), columns);
    std::string panels;
    for (const Panel& panel : picture.panels) {
      Grid grid(sharding, picture, panel);
      const auto drawn = grid.draw(columns);
      if (!drawn) {
        panels.clear();
        break;
      }
      panels += cat(panel.caption, panel.caption.empty() ? "" : "\n", *drawn);
    }
    if (panels.empty()) {
      out += list(sharding, picture, columns);
    } else {
      out += panels;
      if (picture.more_panels > 0) out += cat("and ", format_count(picture.more_panels), " more slices\n");
    }
  }
  if (!picture.idle.empty() && !picture.boxes.empty()) {
    out += wrapped(cat("empty boxes: ", planning::device_list(sharding, picture.idle, columns)), columns);
  }
  return out;
}

}  // namespace loadstone
