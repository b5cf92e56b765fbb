#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadstone/plan/plan.h"

/// Inside plan/: words and tables for people.
namespace loadstone::planning {

/// "mesh x=8, P(None, 'x')", "row tiles over 4 devices", "a table of boxes over 3 devices".
std::string describe(const Sharding& sharding);

/// "3.20 us", "14.0 ms", "2.50 s".
std::string format_seconds(double seconds);
/// Rounded; 2^63-1 beyond its range.
std::int64_t nanoseconds(double seconds);

/// Lines of left-aligned columns, two spaces apart, each line behind `indent`. A column whose number is in `right` is
/// right-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& indent,
                  const std::vector<std::size_t>& right = {});

}  // namespace loadstone::planning
