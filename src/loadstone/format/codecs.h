#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace loadstone::codecs {

// Decoders of stored chunks, for every format that has some. Each of the functions that unpack fills `out` from its
// front and returns the number of bytes made. No size that `stored` claims is believed: Error{data} without a file name
// for damage, for bytes left over, and for more than out.size() bytes. Safe from any thread.
using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;

std::size_t unpack_zlib(Bytes stored, Room out);
/// One member or several behind one another.
std::size_t unpack_gzip(Bytes stored, Room out);
/// One frame or several; checksums of frames are checked.
std::size_t unpack_zstd(Bytes stored, Room out);
/// One or several bzip2 streams.
std::size_t unpack_bzip2(Bytes stored, Room out);
/// A block of LZ4 without a frame.
std::size_t unpack_lz4(Bytes stored, Room out);
/// numcodecs': the number of bytes in 4 bytes, little-endian, then a block.
std::size_t unpack_lz4_sized(Bytes stored, Room out);
/// HDF5's filter 32004: big-endian sizes of the whole and of blocks, then block by block.
std::size_t unpack_lz4_blocks(Bytes stored, Room out);
std::size_t unpack_lzf(Bytes stored, Room out);
/// Blosc 1 with any of its inner codecs and shuffles, on the calling thread.
std::size_t unpack_blosc(Bytes stored, Room out);

/// Undoes a byte shuffle of elements of `item` bytes; what does not fill an element at the end was not shuffled. Both
/// sides have the same size and do not overlap.
void unshuffle(Bytes data, std::size_t item, Room out);

/// CRC-32C (Castagnoli), as zarr and iSCSI have it.
std::uint32_t crc32c(Bytes data);
/// HDF5's: sums over big-endian pairs of bytes.
std::uint32_t fletcher32(Bytes data);

/// Bytes for the calling thread, not zeroed; what was there before is lost when they grow. `slot` (0 to 2) keeps
/// buffers apart that are in use together. Freed when the thread ends.
Room scratch(int slot, std::size_t bytes);

}  // namespace loadstone::codecs
