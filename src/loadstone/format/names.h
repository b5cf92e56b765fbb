#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loadstone {

/// A file name taken apart around the digit run that numbers it: "model-00003-of-00010.npy" is prefix "model-",
/// number 3, suffix "-of-00010.npy", of_total 10.
struct NumberedName {
  std::string prefix;
  std::string suffix;
  std::string digits;
  std::int64_t number = 0;
  std::optional<std::int64_t> of_total;
};

/// Natural order: digit runs compare by value, the rest byte by byte; "s2" < "s10". Total: equal only for equal names.
bool natural_less(std::string_view a, std::string_view b);

/// Options of the checks below, see DiscoverOptions.
struct OrderRules {
  bool explicit_list = false;  ///< the caller gave the order
  bool keep_order = false;
  bool allow_gaps = false;
};

/// The order in which the files stack, with what was noticed. `names` are paths; only the last component counts for
/// numbering. Sorts scans and globs by number, keeps explicit lists. Throws for holes, strays, two stems, equal
/// numbers, an -of-N count that does not fit, a list that is not ascending (loading D3, D12–D14).
struct FileOrder {
  std::vector<std::size_t> order;  ///< indices into names
  std::vector<std::string> notes;
  bool complete_by_name = false;  ///< -of-N names were checked
  std::string stem;               ///< common stem, "" if there is none
};
FileOrder order_files(const std::vector<std::string>& names, const OrderRules& rules);

}  // namespace loadstone
