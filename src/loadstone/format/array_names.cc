#include "loadstone/format/array_names.h"

#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"

namespace loadstone {

void require_arrays(std::string_view path, const std::vector<std::string>& asked, const std::vector<std::string>& has,
                    std::string_view hint) {
  constexpr std::size_t kShown = 20;
  for (const std::string& name : asked) {
    if (std::find(has.begin(), has.end(), name) != has.end()) continue;
    const std::string near = nearest(name, has);
    throw file_usage_error(
        path,
        cat("has no array ", in_quotes(name), near.empty() ? "" : cat(", did you mean ", in_quotes(near)),
            "; it has: ", has.empty() ? "none" : join_first(has, kShown), hint),
        name, has.empty() ? "none" : join_first(has, kShown));
  }
}

bool is_wanted(const std::vector<std::string>& asked, std::string_view name) {
  return asked.empty() || std::find(asked.begin(), asked.end(), name) != asked.end();
}

}  // namespace loadstone
