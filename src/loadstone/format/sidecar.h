#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "loadstone/format/format.h"

namespace loadstone {

inline constexpr std::string_view kSidecarName = "shard_meta.json";

/// What a sidecar says of the files beside it (loading D10): {dtype, row_shape | shape, offset, order}, all optional,
/// and `files`: {name: {the same}} for those that differ. Stands in for options, which override it.
struct Sidecar {
  std::string path;
  ReadHints hints;
  std::map<std::string, ReadHints, std::less<>> files;

  /// What it says of the file called `name`.
  ReadHints of(std::string_view name) const;
};

/// Reads sidecar text. Error{data} naming `path` when it is malformed.
Sidecar parse_sidecar(std::string_view text, const std::string& path);
/// The sidecar in `folder`, or nullopt when there is none. Error{data|system} naming it when it cannot be used.
std::optional<Sidecar> read_sidecar(const std::string& folder);

/// The whole of a regular file of at most `limit` bytes. Error{system} with errno, Error{data} when it is larger or not
/// a regular file. Never blocks.
std::string read_small_file(const std::string& path, std::int64_t limit);

/// `over` wins field by field; a shape and a row shape stand in for each other.
ReadHints merge_hints(const ReadHints& under, const ReadHints& over);
/// True when raw bytes can be read with these hints.
bool enough_for_raw(const ReadHints& hints);
/// Empty, or what `header` (of a self-describing file) contradicts in the sidecar's hints.
std::string contradiction(const Header& header, const ReadHints& sidecar);

}  // namespace loadstone
