#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "loadstone/format/gather.h"
#include "loadstone/format/probe.h"

namespace loadstone {

/// All files looked at, segment after segment: file i of segment s is number first[s] + i.
struct Candidates {
  std::vector<Segment> segments;
  std::vector<std::string> paths;
  std::vector<std::size_t> first;  ///< one more than segments
};
Candidates flatten(std::vector<Segment> segments);

/// Which candidates are members of the set, by segment, ascending.
struct Members {
  std::vector<std::vector<std::size_t>> of_segment;
  std::vector<std::string> left_out;
};

/// Decides which files are members (loading D14, D21), as one set of one format. Reads unknown files as raw when a
/// sidecar describes them. Throws for files that should be members and cannot be: bad ones, other formats, odd kinds.
Members choose_members(const Candidates& all, Probes& probes, const DiscoverOptions& options, const Format* forced,
                       const Sidecars& sidecars);

/// Of a folder's files, those to read as raw: by extension, else all of one common extension. The others go to
/// left_out. Error{usage} when it cannot be told.
std::vector<std::string> raw_files(const std::string& folder, std::vector<std::string> paths,
                                   std::vector<std::string>& left_out);

}  // namespace loadstone
