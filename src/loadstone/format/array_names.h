#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace loadstone {

/// Every name asked for is one that the file has; Error{usage} "'path': no array 'x', did you mean …; it has: …" else.
/// `hint` is added to it: where the array may be instead.
void require_arrays(std::string_view path, const std::vector<std::string>& asked, const std::vector<std::string>& has,
                    std::string_view hint = {});

/// True when this array is to be described: nothing was asked for, or it was.
bool is_wanted(const std::vector<std::string>& asked, std::string_view name);

}  // namespace loadstone
