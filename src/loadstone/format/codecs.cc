#include "loadstone/format/codecs.h"

#include <blosc.h>
#include <bzlib.h>
#include <libdeflate.h>
#include <liblzf/lzf.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <memory>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone::codecs {

namespace {

Error out_of_memory(const char* library) {
  return Error(ErrorKind::system, cat("out of memory for ", library));
}

Error too_long(const char* what, Room out) {
  return data_error(cat("a ", what, " that unpacks to more than the ", out.size(), " bytes expected"));
}

libdeflate_decompressor* decompressor() {
  struct Free {
    void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  };
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> kDecompressor(libdeflate_alloc_decompressor());
  if (!kDecompressor) throw out_of_memory("libdeflate");
  return kDecompressor.get();
}

/// The bytes made.
std::size_t check_deflate(libdeflate_result result, std::size_t stored, std::size_t made, Room out) {
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) throw too_long("deflate stream", out);
  if (result != LIBDEFLATE_SUCCESS) throw data_error(cat("corrupt or truncated deflate stream of ", stored, " bytes"));
  return made;
}

std::size_t big_endian(Bytes bytes) {
  std::size_t out = 0;
  for (const std::byte byte : bytes) out = out << 8 | std::to_integer<std::size_t>(byte);
  return out;
}

}  // namespace

Room scratch(int slot, std::size_t bytes) {
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  thread_local std::array<Buffer, 3> buffers;
  Buffer& buffer = buffers.at(static_cast<std::size_t>(slot));
  if (buffer.size < bytes) {
    buffer = {};
    buffer = {std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes};
  }
  return {buffer.bytes.get(), bytes};
}

std::size_t unpack_zlib(Bytes stored, Room out) {
  std::size_t taken = 0, made = 0;
  const auto result = libdeflate_zlib_decompress_ex(decompressor(), stored.data(), stored.size(), out.data(),
                                                    out.size(), &taken, &made);
  check_deflate(result, stored.size(), made, out);
  if (taken != stored.size()) throw data_error(cat(stored.size() - taken, " bytes behind a deflate stream"));
  return made;
}

std::size_t unpack_gzip(Bytes stored, Room out) {
  std::size_t made = 0;
  do {
    std::size_t taken = 0, more = 0;
    const Room room = out.subspan(made);
    const auto result = libdeflate_gzip_decompress_ex(decompressor(), stored.data(), stored.size(), room.data(),
                                                      room.size(), &taken, &more);
    made += check_deflate(result, stored.size(), more, out);
    stored = stored.subspan(taken);
  } while (!stored.empty());
  return made;
}

std::size_t unpack_zstd(Bytes stored, Room out) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> kContext(ZSTD_createDCtx());
  if (!kContext) throw out_of_memory("zstd");
  const std::size_t made = ZSTD_decompressDCtx(kContext.get(), out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(made) != 0) throw data_error(cat("corrupt or too long zstd frame: ", ZSTD_getErrorName(made)));
  return made;
}

std::size_t unpack_bzip2(Bytes stored, Room out) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // bzip2 counts in 32 bits
  std::size_t made = 0;
  do {
    bz_stream stream{};
    if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) throw out_of_memory("bzip2");
    const std::unique_ptr<bz_stream, int (*)(bz_stream*)> end(&stream, BZ2_bzDecompressEnd);
    int result = BZ_OK;
    while (result == BZ_OK) {
      const Room room = out.subspan(made);
      stream.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(stored.data()));
      stream.avail_in = static_cast<unsigned>(std::min(stored.size(), kMost));
      char beyond = 0;  // so that an end exactly at out's is told from a stream that goes on
      stream.next_out = room.empty() ? &beyond : reinterpret_cast<char*>(room.data());
      stream.avail_out = room.empty() ? 1U : static_cast<unsigned>(std::min(room.size(), kMost));
      const unsigned in = stream.avail_in, space = stream.avail_out;
      result = BZ2_bzDecompress(&stream);
      stored = stored.subspan(in - stream.avail_in);
      const std::size_t more = space - stream.avail_out;
      if (room.empty() && more > 0) throw too_long("bzip2 stream", out);
      made += more;
      if (result == BZ_OK && in == stream.avail_in && more == 0) throw data_error("truncated bzip2 stream");
    }
    if (result != BZ_STREAM_END) throw data_error("corrupt bzip2 stream");
  } while (!stored.empty());
  return made;
}

std::size_t unpack_lz4(Bytes stored, Room out) {
  if (stored.size() > INT_MAX || out.size() > INT_MAX) throw data_error("an lz4 block of more than 2 GiB");
  const int made =
      LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(out.data()),
                          static_cast<int>(stored.size()), static_cast<int>(out.size()));
  if (made < 0) throw data_error(cat("corrupt lz4 block, or one of more than the ", out.size(), " bytes expected"));
  return static_cast<std::size_t>(made);
}

std::size_t unpack_lz4_sized(Bytes stored, Room out) {
  if (stored.size() < 4) throw data_error(cat("truncated lz4 chunk of ", stored.size(), " bytes"));
  std::size_t claimed = 0;
  for (std::size_t k = 4; k-- > 0;) claimed = claimed << 8 | std::to_integer<std::size_t>(stored[k]);
  if (claimed > out.size()) throw too_long("lz4 chunk", out);
  const std::size_t made = unpack_lz4(stored.subspan(4), out.first(claimed));
  if (made != claimed) throw data_error(cat("an lz4 chunk of ", made, " bytes that says ", claimed));
  return made;
}

std::size_t unpack_lz4_blocks(Bytes stored, Room out) {
  if (stored.size() < 12) throw data_error(cat("truncated lz4 chunk of ", stored.size(), " bytes"));
  const std::size_t total = big_endian(stored.first(8)), block = big_endian(stored.subspan(8, 4));
  if (total > out.size()) throw too_long("lz4 chunk", out);
  if (block == 0 && total > 0) throw data_error("an lz4 chunk of blocks without bytes");
  stored = stored.subspan(12);
  for (std::size_t made = 0; made < total;) {
    const Room room = out.subspan(made, std::min(block, total - made));
    if (stored.size() < 4) throw data_error("truncated lz4 chunk");
    const std::size_t size = big_endian(stored.first(4));
    if (size > stored.size() - 4) throw data_error("truncated lz4 chunk");
    const Bytes body = stored.subspan(4, size);
    stored = stored.subspan(4 + size);
    if (size == room.size()) {  // as it was: packing had not made it smaller
      std::memcpy(room.data(), body.data(), size);
    } else if (unpack_lz4(body, room) != room.size()) {
      throw data_error("an lz4 block of another length");
    }
    made += room.size();
  }
  if (!stored.empty()) throw data_error(cat(stored.size(), " bytes behind the last lz4 block"));
  return total;
}

std::size_t unpack_lzf(Bytes stored, Room out) {
  if (stored.size() > UINT_MAX || out.size() > UINT_MAX) throw data_error("an lzf chunk of more than 4 GiB");
  if (stored.empty() || out.empty()) throw data_error("an lzf chunk without bytes");
  const unsigned made = lzf_decompress(stored.data(), static_cast<unsigned>(stored.size()), out.data(),
                                       static_cast<unsigned>(out.size()));
  if (made == 0) throw data_error(cat("corrupt lzf chunk, or one of more than the ", out.size(), " bytes expected"));
  return made;
}

std::size_t unpack_blosc(Bytes stored, Room out) {
  // The library asks for no length of what it is given: the one in the header has to be right.
  std::size_t claimed = 0;
  if (blosc_cbuffer_validate(stored.data(), stored.size(), &claimed) != 0) {
    throw data_error(cat("corrupt or truncated blosc chunk of ", stored.size(), " bytes"));
  }
  if (claimed > out.size()) throw too_long("blosc chunk", out);
  if (claimed == 0) return 0;
  const int made = blosc_decompress_ctx(stored.data(), out.data(), out.size(), 1);
  if (made < 0 || static_cast<std::size_t>(made) != claimed) {
    const char* inner = blosc_cbuffer_complib(stored.data());
    throw data_error(cat("corrupt blosc chunk (inner codec ", inner == nullptr ? "unknown" : inner, ")"));
  }
  return claimed;
}

}  // namespace loadstone::codecs
