// The plugin's side of plugin.h. The only files that include Arrow are in this folder, beside the core's loader.

#include <arrow/buffer.h>
#include <arrow/config.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/status.h>
#include <arrow/type.h>
#include <parquet/arrow/schema.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/format/arrow/parquet_columns.h"
#include "loadstone/format/arrow/plugin.h"
#include "loadstone/format/arrow/table_writer.h"

namespace loadstone {

namespace {

/// A file of which only some bytes are there: those of the piece to decode, in memory; or all, through a ByteSource.
class PartOfFile : public arrow::io::RandomAccessFile {
 public:
  PartOfFile(std::int64_t size, std::int64_t offset, std::span<const std::byte> bytes)
      : size_(size), offset_(offset), bytes_(bytes) {}
  explicit PartOfFile(ByteSource& source) : size_(source.stamp().size_bytes), source_(&source) {}

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return size_; }
  arrow::Result<int64_t> Read(int64_t nbytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, nbytes, out));
    position_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, nbytes));
    position_ += buffer->size();
    return buffer;
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t nbytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position, nbytes));
    std::memcpy(out, buffer->data(), static_cast<std::size_t>(buffer->size()));
    return buffer->size();
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t nbytes) override {
    if (position < 0 || nbytes < 0 || position > size_) return arrow::Status::Invalid("a read outside the file");
    nbytes = std::min(nbytes, size_ - position);
    if (source_ != nullptr) {
      ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(nbytes));
      try {
        source_->read(position,
                      {reinterpret_cast<std::byte*>(buffer->mutable_data()), static_cast<std::size_t>(nbytes)});
      } catch (const Error& error) {
        return arrow::Status::IOError(error.message());
      }
      return std::shared_ptr<arrow::Buffer>(std::move(buffer));
    }
    const auto available = static_cast<std::int64_t>(bytes_.size());
    if (position < offset_ || position - offset_ > available || nbytes > available - (position - offset_)) {
      return arrow::Status::Invalid("a read outside the column's bytes");
    }
    return std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(bytes_.data()) + (position - offset_),
                                           nbytes);
  }

 private:
  std::int64_t size_ = 0, offset_ = 0, position_ = 0;
  std::span<const std::byte> bytes_;
  ByteSource* source_ = nullptr;
  bool closed_ = false;
};

/// A header must not make Arrow allocate what it merely claims: no more than the piece can need.
class BoundedPool : public arrow::ProxyMemoryPool {
 public:
  explicit BoundedPool(std::int64_t limit) : ProxyMemoryPool(arrow::default_memory_pool()), limit_(limit) {}
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    if (size > limit_ - bytes_allocated()) return refusal(size);
    return ProxyMemoryPool::Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t** ptr) override {
    if (new_size - old_size > limit_ - bytes_allocated()) return refusal(new_size);
    return ProxyMemoryPool::Reallocate(old_size, new_size, alignment, ptr);
  }

 private:
  arrow::Status refusal(int64_t size) const {
    return arrow::Status::Invalid("a page claims ", size, " bytes, more than its column chunk can hold");
  }
  std::int64_t limit_;
};

/// Footers by file: read once at discovery, used by every decode. The least recently used go first.
class Footers {
 public:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t>;
  using Metadata = std::shared_ptr<parquet::FileMetaData>;

  Metadata find(const Key& key) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    order_.splice(order_.end(), order_, found->second.second);
    return found->second.first;
  }
  void keep(const Key& key, Metadata metadata) {
    std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(key); found != entries_.end()) return;
    bytes_ += size_of(*metadata);
    entries_.emplace(key, std::pair(std::move(metadata), order_.insert(order_.end(), key)));
    while (bytes_ > kKeptBytes && entries_.size() > 1) {
      const auto oldest = entries_.find(order_.front());
      bytes_ -= size_of(*oldest->second.first);
      entries_.erase(oldest);
      order_.pop_front();
    }
  }

 private:
  /// Arrow has changed the sign of it between versions.
  static std::int64_t size_of(const parquet::FileMetaData& metadata) {
    return static_cast<std::int64_t>(metadata.size());
  }
  static constexpr std::int64_t kKeptBytes = std::int64_t{64} << 20;  // of footers as stored
  std::mutex mutex_;
  std::list<Key> order_;
  std::map<Key, std::pair<Metadata, std::list<Key>::iterator>> entries_;
  std::int64_t bytes_ = 0;
};

Footers& footers() {
  static Footers* const kept = new Footers;  // never destroyed: decodes may run while the process ends
  return *kept;
}

parquet::ReaderProperties properties(arrow::MemoryPool* pool) {
  parquet::ReaderProperties out(pool);
  out.set_page_checksum_verification(true);
  return out;
}

Footers::Metadata metadata_of(ByteSource& source) {
  const FileStamp stamp = source.stamp();
  const Footers::Key key{std::string(source.path()), stamp.size_bytes, stamp.mtime_ns};
  Footers::Metadata metadata = footers().find(key);
  if (metadata == nullptr) {
    auto file = std::make_shared<PartOfFile>(source);
    metadata = parquet::ParquetFileReader::Open(file, properties(arrow::default_memory_pool()))->metadata();
    footers().keep(key, metadata);
  }
  return metadata;
}

std::string without_prefix(const char* what) {
  std::string text(what);
  for (const std::string_view prefix : {"Invalid: ", "IOError: ", "Parquet magic bytes not found in footer. "}) {
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  }
  return text;
}

/// Runs fn; turns whatever it throws into a status.
template <typename Fn>
PluginStatus guarded(Fn&& fn) {
  try {
    fn();
    return {};
  } catch (const Error& error) {
    return {error.kind() == ErrorKind::system ? PluginStatus::Kind::system : PluginStatus::Kind::data, error.message()};
  } catch (const std::bad_alloc&) {
    return {PluginStatus::Kind::system, "out of memory"};
  } catch (const std::exception& error) {
    return {PluginStatus::Kind::data, without_prefix(error.what())};
  }
}

PluginStatus parquet_footer(ByteSource& source, ParquetFooter& out) {
  return guarded([&] { out = footer_of(*metadata_of(source), source.stamp().size_bytes); });
}

int row_group_at(const parquet::FileMetaData& metadata, std::int64_t offset, std::int64_t rows,
                 const std::vector<int>& leaves) {
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    const auto row_group = metadata.RowGroup(group);
    if (row_group->num_rows() != rows) continue;
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const int leaf : leaves) first = std::min(first, chunk_of(*row_group->ColumnChunk(leaf)).offset_bytes);
    if (first == offset) return group;
  }
  throw data_error(cat("no row group of ", rows, " rows begins at byte ", offset));
}

PluginStatus parquet_decode(const ParquetRequest& request) {
  return guarded([&] {
    Footers::Metadata metadata = footers().find({request.path, request.stamp.size_bytes, request.stamp.mtime_ns});
    if (metadata == nullptr) metadata = metadata_of(*request.reopen());
    const int group = row_group_at(*metadata, request.offset_bytes, request.rows, request.leaves);
    // Of each column levels, a dictionary and a page of values live at once, none larger than the chunk when unpacked.
    std::int64_t unpacked = 0;
    for (const int leaf : request.leaves) {
      const std::int64_t claimed = metadata->RowGroup(group)->ColumnChunk(leaf)->total_uncompressed_size();
      unpacked =
          checked_add(unpacked, std::max<std::int64_t>(claimed, 0)).value_or(std::numeric_limits<std::int64_t>::max());
    }
    const auto elements = static_cast<std::int64_t>(request.out.size());
    const std::int64_t slack = (std::int64_t{16} << 20) + 16 * elements;
    unpacked = std::clamp<std::int64_t>(unpacked, 0, 64 * static_cast<std::int64_t>(request.stored.size()) + slack);
    BoundedPool pool(4 * unpacked + slack);
    auto file = std::make_shared<PartOfFile>(request.stamp.size_bytes, request.offset_bytes, request.stored);
    const auto reader = parquet::ParquetFileReader::Open(file, properties(&pool), metadata);
    const auto row_group = reader->RowGroup(group);
    std::vector<std::shared_ptr<parquet::ColumnReader>> readers;
    for (const int leaf : request.leaves) readers.push_back(row_group->Column(leaf));
    read_columns(readers, request);
  });
}

PluginStatus table_write(const TableToWrite& table) {
  return guarded([&] { write_table(table); });
}

std::string version() {
  return arrow::GetBuildInfo().version_string;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ArrowPlugin* loadstone_arrow_plugin() {
  static const ArrowPlugin kPlugin{kArrowPluginAbi, version, parquet_footer, parquet_decode, table_write};
  return &kPlugin;
}

}  // namespace loadstone
