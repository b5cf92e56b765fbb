#pragma once

#include <string>
#include <vector>

#include "loadstone/format/format.h"
#include "tests/fakes/memory_source.h"
#include "tests/fuzz/fuzz.h"

namespace loadstone::fuzz {

/// Decodes a stored piece when it is small enough for a fuzzer. Every byte is written, or an error blames the input.
inline void decode_piece(const Format& format, const Encoding& encoding, DType dtype, const Piece& piece,
                         ByteSource& file) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t bytes = dtype.nbytes(num_elems(piece.stored_shape));
  if (bytes > kMost) return;
  std::vector<std::byte> stored(static_cast<std::size_t>(piece.stored_bytes)), out(static_cast<std::size_t>(bytes));
  if (!stored.empty()) file.read(piece.offset_bytes, stored);
  only_blames_input([&] { format.decode(encoding, piece, dtype, stored, out); });
}

/// Discovers a whole file of a format from bytes. What its headers name must lie inside the file.
inline void discover_bytes(std::string_view name, const std::uint8_t* data, std::size_t size) {
  const Format& format = *find_format(name);
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto file_bytes = static_cast<std::int64_t>(size);
  fakes::MemorySources files;
  files.put("a", std::vector<std::byte>(bytes, bytes + size));
  const auto file = files.open("a");
  const auto inside = [&](std::int64_t offset, std::int64_t count) {
    require(offset >= 0 && count >= 0 && offset <= file_bytes && count <= file_bytes - offset);
  };
  only_blames_input([&] {
    for (const Header& header : format.discover(*file, {})) {
      Piece piece;
      piece.stored_shape = header.shape;
      if (!header.grid) {
        const std::int64_t payload = header.dtype.nbytes(num_elems(header.shape));
        piece.offset_bytes = header.offset_bytes;
        piece.stored_bytes = header.stored_bytes >= 0 ? header.stored_bytes : payload;
        inside(piece.offset_bytes, piece.stored_bytes);
        if (header.encoding) decode_piece(format, *header.encoding, header.dtype, piece, *file);
        continue;
      }
      const ChunkGrid& grid = *header.grid;  // of row groups: nothing here has another
      require(grid.row_bounds.size() == grid.offsets.size() + 1 && grid.row_bounds.back() == header.shape[0]);
      for (std::size_t chunk = 0; chunk < grid.offsets.size(); ++chunk) {
        piece.offset_bytes = grid.offsets[chunk];
        piece.stored_bytes = grid.stored_bytes[chunk];
        piece.stored_shape[0] = grid.row_bounds[chunk + 1] - grid.row_bounds[chunk];
        inside(piece.offset_bytes, piece.stored_bytes);
        if (header.encoding) {
          decode_piece(format, *header.encoding, header.dtype, piece, *file);
        } else {
          require(piece.stored_bytes == header.dtype.nbytes(num_elems(piece.stored_shape)));
        }
      }
    }
  });
}

}  // namespace loadstone::fuzz
