#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/base/error.h"
#include "loadstone/format/discover.h"
#include "loadstone/format/sidecar.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

/// What files of one stack must have in common.
struct RowType {
  DType dtype;
  Shape trailing;
  bool scalar = false;
  friend bool operator==(const RowType&, const RowType&) = default;
};

/// One file as found; 48 bytes. What is rare (faults, odd contents) is kept beside, in Probes.
struct Probe {
  enum class State : std::uint8_t {
    data,      ///< header read
    unknown,   ///< a regular file of no known format, see Probes::odd
    not_file,  ///< not a regular file, see Probes::odd
    failed     ///< see Probes::faults
  };
  std::int64_t rows = 0;
  std::int64_t offset_bytes = 0;
  FileStamp stamp;
  std::int32_t row_type = -1;  ///< into Probes::row_types; -1: see Probes::contents
  std::int8_t format = -1;     ///< into all_formats(), -1 = not recognised
  State state = State::failed;
  ByteOrder byte_order = ByteOrder::little;
  ElementOrder order = ElementOrder::c;
};

/// Sidecars by folder: read, or why one cannot be used.
struct FolderSidecar {
  std::optional<Sidecar> sidecar;
  std::optional<Error> fault;
};
using Sidecars = std::map<std::string, FolderSidecar, std::less<>>;

/// What a file holds that is more than one plain, unnamed array.
struct Contents {
  std::vector<Header> headers;
  FileTable files;  ///< of a store
};

struct Probes {
  std::vector<Probe> files;
  std::map<std::size_t, Contents> contents;  ///< of those whose Probe::row_type is -1
  std::vector<RowType> row_types;
  std::map<std::size_t, Error> faults;
  std::map<std::size_t, Sniffed> odd;
  std::map<std::string, std::pair<std::string, std::int64_t>> notes;  ///< text → first file, number of files
  IoCounters counters;
};

/// Looks at every path in parallel: stat, then one open, then the header. Never throws for a bad file: that is a
/// result. Throws Interrupted.
Probes probe_files(const std::vector<std::string>& paths, const DiscoverOptions& options, const Format* forced,
                   const Sidecars& sidecars, const ThreadPool& pool);

/// Reads the unknown file `i` as raw bytes after all; needs no second open.
void reread_as_raw(Probes& probes, std::size_t i, const std::string& path, const ReadHints& hints);

/// The hints that hold for a file: options over sidecar.
ReadHints hints_for(const std::string& path, const DiscoverOptions& options, const Sidecars& sidecars);

}  // namespace loadstone
