#pragma once

#include <string>

#include "loadstone/verify/verdict.h"

namespace loadstone {

/// One JSON object with levels, accusations (all their fields), hints, ok and digest. Boxes as {"begin", "end",
/// "text"}, bytes as integers, what is not known as null. For the command line.
std::string to_json(const Verdict& verdict);

}  // namespace loadstone
