#include "loadstone/format/lost_types.h"

#include "loadstone/base/text.h"

namespace loadstone {

namespace {
constexpr std::int64_t kMaxItemsize = 1LL << 20;
}  // namespace

std::int64_t nameable_itemsize(std::string_view typestr) {
  if (!typestr.empty() && std::string_view("<>=|").find(typestr.front()) != std::string_view::npos) {
    typestr.remove_prefix(1);
  }
  if (typestr == "f1") return 1;
  for (const std::string_view time : {"M8", "m8", "datetime64", "timedelta64"}) {
    if (typestr == time || (typestr.starts_with(time) && typestr[time.size()] == '[' && typestr.ends_with(']'))) {
      return 8;
    }
  }
  if (!typestr.starts_with('V')) return 0;
  std::int64_t bytes = 0;
  return parse_int(typestr.substr(1), bytes) && bytes > 0 && bytes <= kMaxItemsize ? bytes : 0;
}

}  // namespace loadstone
