#include "loadstone/format/zarr_sharding.h"

#include <algorithm>
#include <cstddef>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/format/codecs.h"

namespace loadstone::zarr {

namespace {

constexpr std::int64_t kEntryBytes = 16;
constexpr std::int64_t kChecksumBytes = 4;

std::uint64_t number_at(codecs::Bytes bytes, std::size_t at, std::size_t count, bool big) {
  std::uint64_t out = 0;
  for (std::size_t k = 0; k < count; ++k) {
    out = out << 8U | std::to_integer<std::uint64_t>(bytes[at + (big ? k : count - 1 - k)]);
  }
  return out;
}

}  // namespace

std::vector<InnerChunk> read_shard_index(ByteSource& shard, const Sharding& sharding, std::int64_t count) {
  const std::int64_t size = shard.stamp().size_bytes;
  const auto entries = checked_mul(count, kEntryBytes);
  const std::int64_t checksum = sharding.index_checked ? kChecksumBytes : 0;
  if (!entries || *entries > size - checksum) {
    throw data_error(cat("a shard of ", size, " bytes is too short for the index of ", count, " inner chunks"));
  }
  const std::int64_t bytes = *entries + checksum;
  std::vector<std::byte> index(static_cast<std::size_t>(bytes));
  shard.read(sharding.index_at_start ? 0 : size - bytes, index);
  const codecs::Bytes body = codecs::Bytes(index).first(static_cast<std::size_t>(*entries));
  if (sharding.index_checked) {
    const auto expected = static_cast<std::uint32_t>(number_at(index, body.size(), kChecksumBytes, false));
    if (const std::uint32_t found = codecs::crc32c(body); found != expected) {
      throw data_error(cat("the index of a shard is damaged: crc32c checksum ", found, ", expected ", expected));
    }
  }
  std::vector<InnerChunk> out(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < out.size(); ++k) {
    const std::uint64_t offset = number_at(body, k * 16, 8, sharding.index_big);
    const std::uint64_t length = number_at(body, k * 16 + 8, 8, sharding.index_big);
    if (offset == ~std::uint64_t{0} && length == ~std::uint64_t{0}) continue;
    const auto most = static_cast<std::uint64_t>(size);
    if (length > most || offset > most - length) {
      throw data_error(cat("the index of a shard puts inner chunk ", k, " at offset ", offset, " with ", length,
                           " bytes: expected inside the file of ", size));
    }
    out[k] = {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(length)};
  }
  return out;
}

}  // namespace loadstone::zarr
