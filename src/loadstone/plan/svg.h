#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Inside plan/: a small writer of SVG documents and the fitting of words into boxes. Lengths are in pixels.
namespace loadstone::planning {

struct Rect {
  double x = 0, y = 0, w = 0, h = 0;
};

/// Words set in lines that fit into a box.
struct Fit {
  std::vector<std::string> lines;
  double size = 12;     ///< font size
  bool turned = false;  ///< reads from bottom to top
};
/// The largest setting of the words that fits into w x h, turned where that is larger; else the first word and the
/// count of the others; nullopt when not even that fits.
std::optional<Fit> fit(const std::vector<std::string>& words, double w, double h);

class Svg {
 public:
  /// Widths are those of a monospaced font, so that estimates hold.
  static double text_width(std::string_view text, double size) {
    return 0.605 * size * static_cast<double>(text.size());
  }
  /// text, cut with "…" to at most `width`.
  static std::string elided(const std::string& text, double size, double width);
  /// text in lines of at most `width`, cut at spaces.
  static std::vector<std::string> wrapped(const std::string& text, double size, double width);

  /// An empty `fill` or `stroke` is left out.
  void rect(const Rect& rect, std::string_view fill, std::string_view stroke, double stroke_width);
  /// A rectangle in the colour (and from the ninth process on, hatching) of a process.
  void fill(const Rect& rect, std::int32_t process);
  void line(double x0, double y0, double x1, double y1, std::string_view stroke, double stroke_width);
  /// Text whose baseline begins at (x, y). `attributes` are written as they are.
  void line_of_text(double x, double y, double size, std::string_view text, std::string_view attributes = {});
  /// Text from bottom to top, centred at y.
  void turned_text(double x, double y, double size, std::string_view text, std::string_view colour = "#24292f");
  /// Centres the lines in the rectangle.
  void label(const Rect& rect, const Fit& fit);
  void open_group(std::string_view tooltip);
  void close_group();

  /// The document, on a white ground.
  std::string finish(double width, double height) const;

 private:
  std::string body_;
};

}  // namespace loadstone::planning
