#pragma once

#include <cstddef>
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
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace loadstone
