#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadstone/io/byte_source.h"

namespace loadstone {

/// A file inside a zip archive.
struct ZipMember {
  std::string name;
  std::int64_t offset_bytes = 0;  ///< of its stored bytes in the archive
  std::int64_t stored_bytes = 0;
  std::int64_t bytes = 0;  ///< unpacked
  std::uint32_t crc = 0;
  bool deflated = false;
  std::string refusal;  ///< why it cannot be read (encrypted, another method), or ""
};

/// The members of a zip archive, zip64 included, from its central directory and their local headers; nothing is
/// unpacked. Error{data} naming the file for a directory that is cut, points outside the file or names a member twice.
/// Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12, 4.3.14-16, 4.5.3
std::vector<ZipMember> read_zip_directory(ByteSource& source);

}  // namespace loadstone
