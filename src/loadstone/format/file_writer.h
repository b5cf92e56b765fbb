#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace loadstone {

/// Writes a new file under a temporary name beside `path`; commit() syncs and renames. Without commit the destructor
/// unlinks the temporary. Error{system} naming `path`.
class FileWriter {
 public:
  /// Error{usage} when `path` exists and is no regular file (a device, a directory).
  explicit FileWriter(std::string path);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(const void* data, std::size_t bytes);
  /// Bytes at a place of their own; where write() goes on does not change.
  void write_at(std::int64_t offset, const void* data, std::size_t bytes);
  /// The temporary, for libraries that open files themselves.
  const std::string& temporary() const { return temporary_; }
  const std::string& path() const { return path_; }
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace loadstone
