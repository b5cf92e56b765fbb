#include "loadstone/plan/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::planning {
namespace {

constexpr double kLeading = 1.2;
constexpr double kSmallest = 7;

// Okabe and Ito's palette for colour-blind readers, lightened so that dark text can be read on it.
constexpr std::array<std::string_view, 8> kColours = {"#f0c05a", "#91cef0", "#59bd9d", "#f5ec8a",
                                                      "#5f9fd0", "#e59a5c", "#dda7c7", "#c4c4c4"};

std::string number(double value) {
  std::string out = format_fixed(value, 2);
  out.erase(out.find_last_not_of('0') + 1);
  if (!out.empty() && out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

/// Words in lines of at most `most` characters; nullopt when one is longer.
std::optional<std::vector<std::string>> set_lines(const std::vector<std::string>& words, std::size_t most) {
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (word.size() > most) return std::nullopt;
    if (!lines.empty() && lines.back().size() + 1 + word.size() <= most) {
      lines.back() += cat(" ", word);
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::optional<Fit> fit_upright(const std::vector<std::string>& words, double w, double h) {
  for (double size = 13; size >= kSmallest; size -= 1) {
    if (w < size || h < size) continue;
    auto most = static_cast<std::size_t>(w / (0.605 * size));
    auto lines = set_lines(words, most);
    if (!lines || static_cast<double>(lines->size()) * size * kLeading > h + 0.3 * size) continue;
    // Narrower as long as it takes no more lines: even lines instead of a lonely last word.
    for (auto narrower = set_lines(words, --most); narrower && narrower->size() == lines->size();
         narrower = set_lines(words, --most)) {
      lines = std::move(narrower);
    }
    return Fit{*lines, size, false};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fit> fit(const std::vector<std::string>& words, double w, double h) {
  if (words.empty() || words.size() > 64 || w < kSmallest || h < kSmallest) return std::nullopt;
  auto upright = fit_upright(words, w, h);
  if (h <= w) return upright;
  auto turned = fit_upright(words, h, w);
  if (!turned || (upright && upright->size >= turned->size)) return upright;
  turned->turned = true;
  return turned;
}

std::string Svg::elided(const std::string& text, double size, double width) {
  if (text_width(text, size) <= width) return text;
  const auto most = static_cast<std::size_t>(std::max(width / (0.605 * size), 0.0));
  return most < 3 ? "" : text.substr(0, most - 2) + "..";
}

std::vector<std::string> Svg::wrapped(const std::string& text, double size, double width) {
  std::vector<std::string> lines(1);
  for (const std::string& word : split(text, ' ')) {
    if (!lines.back().empty() && text_width(lines.back() + " " + word, size) > width) lines.emplace_back();
    lines.back() += cat(lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

void Svg::rect(const Rect& rect, std::string_view fill, std::string_view stroke, double stroke_width) {
  body_ += cat("<rect x=\"", number(rect.x), "\" y=\"", number(rect.y), "\" width=\"", number(rect.w), "\" height=\"",
               number(rect.h), "\" fill=\"", fill, "\"");
  if (!stroke.empty()) body_ += cat(" stroke=\"", stroke, "\" stroke-width=\"", number(stroke_width), "\"");
  body_ += "/>\n";
}

void Svg::fill(const Rect& at, std::int32_t process) {
  const auto number_of = static_cast<std::size_t>(std::max(process, 0));
  rect(at, kColours[number_of % kColours.size()], "", 0);
  const std::size_t hatch = number_of / kColours.size() % 4;
  if (hatch > 0) rect(at, cat("url(#loadstone-hatch-", hatch, ")"), "", 0);
}

void Svg::line(double x0, double y0, double x1, double y1, std::string_view stroke, double stroke_width) {
  body_ += cat("<line x1=\"", number(x0), "\" y1=\"", number(y0), "\" x2=\"", number(x1), "\" y2=\"", number(y1),
               "\" stroke=\"", stroke, "\" stroke-width=\"", number(stroke_width), "\"/>\n");
}

void Svg::line_of_text(double x, double y, double size, std::string_view text, std::string_view attributes) {
  body_ += cat("<text x=\"", number(x), "\" y=\"", number(y), "\" font-size=\"", number(size), "\"",
               attributes.empty() ? "" : " ", attributes, ">", escaped(text), "</text>\n");
}

void Svg::turned_text(double x, double y, double size, std::string_view text, std::string_view colour) {
  body_ += cat("<text x=\"", number(x), "\" y=\"", number(y), "\" font-size=\"", number(size), "\" fill=\"", colour,
               "\" text-anchor=\"middle\" transform=\"rotate(-90 ", number(x), " ", number(y), ")\">", escaped(text),
               "</text>\n");
}

void Svg::label(const Rect& rect, const Fit& fit) {
  const double x = rect.x + rect.w / 2;
  const double y = rect.y + rect.h / 2;
  const double height = fit.size * kLeading;
  double baseline = y - height * static_cast<double>(fit.lines.size() - 1) / 2 + 0.35 * fit.size;
  for (const std::string& line : fit.lines) {
    body_ += cat("<text x=\"", number(x), "\" y=\"", number(baseline), "\" font-size=\"", number(fit.size),
                 "\" text-anchor=\"middle\"");
    if (fit.turned) body_ += cat(" transform=\"rotate(-90 ", number(x), " ", number(y), ")\"");
    body_ += cat(">", escaped(line), "</text>\n");
    baseline += height;
  }
}

void Svg::open_group(std::string_view tooltip) {
  body_ += cat("<g><title>", escaped(tooltip), "</title>\n");
}

void Svg::close_group() {
  body_ += "</g>\n";
}

std::string Svg::finish(double width, double height) const {
  const std::string w = number(std::ceil(width));
  const std::string h = number(std::ceil(height));
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h, "\" viewBox=\"0 0 ",
                        w, " ", h, "\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\"",
                        " fill=\"#24292f\" style=\"max-width:100%;height:auto\">\n");
  if (body_.find("url(#loadstone-hatch-") != std::string::npos) {
    const std::array<std::string_view, 3> lines = {"M0 6L6 0", "M0 0L6 6", "M0 3H6"};
    out += "<defs>\n";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      out += cat("<pattern id=\"loadstone-hatch-", i + 1,
                 "\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">", "<path d=\"", lines[i],
                 "\" stroke=\"#24292f\" stroke-opacity=\"0.35\" stroke-width=\"0.8\"/></pattern>\n");
    }
    out += "</defs>\n";
  }
  out += cat("<rect width=\"", w, "\" height=\"", h, "\" fill=\"#ffffff\"/>\n");
  return out + body_ + "</svg>\n";
}

}  // namespace loadstone::planning
