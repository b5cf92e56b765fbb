#include "loadstone/plan/describe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::planning {

std::string describe(const Sharding& sharding) {
  const std::int64_t n = sharding.num_devices();
  const std::string devices = cat(format_count(n), n == 1 ? " device" : " devices");
  switch (sharding.kind()) {
    case Sharding::Kind::named:
      return cat("mesh ", to_string(sharding.mesh()), ", ", to_string(sharding.spec()),
                 sharding.uneven() == Uneven::ceil ? ", uneven=ceil" : "");
    case Sharding::Kind::row_tiles:
      return cat("row tiles over ", devices,
                 sharding.over_decompose() > 1 ? cat(", ", sharding.over_decompose(), " for each") : "");
    case Sharding::Kind::boxes: break;
  }
  return cat("a table of boxes over ", devices);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return format_fixed(seconds * 1e6, 1) + " us";
  if (seconds < 1) return format_fixed(seconds * 1e3, 1) + " ms";
  return format_fixed(seconds, 2) + " s";
}

std::int64_t nanoseconds(double seconds) {
  const double ns = std::round(seconds * 1e9);
  return ns < 9.2e18 ? static_cast<std::int64_t>(ns) : std::numeric_limits<std::int64_t>::max();
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& indent,
                  const std::vector<std::size_t>& right) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      const bool to_right = std::find(right.begin(), right.end(), c) != right.end();
      line += cat(c > 0 ? "  " : "", to_right ? pad : "", row[c], to_right ? "" : pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace loadstone::planning
