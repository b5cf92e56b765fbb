#include "loadstone/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"

namespace loadstone {

std::string format_fixed(double value, int digits) {
  std::array<char, 64> buffer{};
  const int n = std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return std::string(buffer.data(), static_cast<std::size_t>(std::clamp(n, 0, 63)));
}

namespace {
std::string scaled(double value) {
  static constexpr std::array<const char*, 6> kUnits{"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  const int digits = unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return cat(format_fixed(value, digits), " ", kUnits[unit]);
}
}  // namespace

std::string format_bytes(std::int64_t bytes) {
  return scaled(static_cast<double>(bytes));
}

std::string format_rate(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? scaled(bytes_per_second) + "/s" : "-";
}

std::string format_count(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t pos = digits.size(); pos > 3 + (value < 0 ? 1U : 0U);) {
    pos -= 3;
    digits.insert(pos, 1, ',');
  }
  return digits;
}

bool parse_int(std::string_view text, std::int64_t& out) {
  const char* end = text.data() + text.size();
  const auto [ptr, ec] = std::from_chars(text.data(), end, out);
  return !text.empty() && ec == std::errc() && ptr == end;
}

std::int64_t parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t factor;
  };
  static constexpr std::array<Unit, 9> kUnits{{{"KiB", 1LL << 10},
                                               {"MiB", 1LL << 20},
                                               {"GiB", 1LL << 30},
                                               {"kB", 1000},
                                               {"KB", 1000},
                                               {"MB", 1000000},
                                               {"GB", 1000000000},
                                               {"B", 1},
                                               {"", 1}}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    std::string_view digits = text.substr(0, text.size() - unit.name.size());
    while (digits.ends_with(' ')) digits.remove_suffix(1);
    std::int64_t value = 0;
    if (!parse_int(digits, value) || value < 0) break;
    if (const auto bytes = checked_mul(value, unit.factor)) return *bytes;
    break;
  }
  throw usage_error(
      cat("'", text, "' is not a size: expected a number of bytes, or one with kB, MB, GB, KiB, MiB or GiB"));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string join_first(const std::vector<std::string>& parts, std::size_t limit) {
  if (parts.size() <= limit) return join(parts, ", ");
  const std::vector<std::string> head(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(limit));
  return cat(join(head, ", "), " and ", parts.size() - limit, " more");
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t above = row[j];
        row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (word[i - 1] == candidate[j - 1] ? 0U : 1U)});
        diagonal = above;
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

namespace {
/// Length of the valid UTF-8 sequence at the front of text, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t n = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (n == 0 || n > text.size()) return 0;
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;  // overlong, surrogate, beyond U+10FFFF
  }
  return n;
}
}  // namespace

std::string printable(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    const std::size_t n = utf8_length(text);
    const bool c1_control = n == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (n == 0 || first < 0x20 || first == 0x7F || c1_control) {
      if (first == '\n') {
        out += "\\n";
      } else {
        out += "\\x";
        out += kHex[first >> 4U];
        out += kHex[first & 15U];
      }
      text.remove_prefix(1);
    } else {
      out += text.substr(0, n);
      text.remove_prefix(n);
    }
  }
  return out;
}

}  // namespace loadstone
