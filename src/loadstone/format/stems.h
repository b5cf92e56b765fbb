#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadstone/format/names.h"

namespace loadstone {

/// All ways to read a name as numbered: one for each digit run of at most 18 digits; for "…3-of-10…" the run before
/// "-of-" only, never the total.
std::vector<NumberedName> readings_of(std::string_view name);

/// A numbered stem: names equal but for one digit run (loading D14).
struct Stem {
  std::string prefix;
  std::string suffix;  ///< as NumberedName: with the total for -of-N
  bool of_total = false;
  struct Member {
    std::size_t name = 0;  ///< index into the names
    std::int64_t number = 0;
    std::int64_t total = -1;
    std::uint8_t digits = 0;
  };
  std::vector<Member> members;  ///< ascending by number

  /// "shard_*.npy"
  std::string pattern() const { return prefix + "*" + suffix; }
  /// The name with another number, as wide as the members are.
  std::string name_of(std::int64_t number) const;
};

/// The stems of two or more members each (one -of-N name is enough), the largest first.
std::vector<Stem> find_stems(const std::vector<std::string_view>& names);

}  // namespace loadstone
