// A store of one array: the metadata (of version 3, or 2 when the first byte is '2'), a zero byte, and what all of its
// chunks that are there hold.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/discovered.h"

namespace {

namespace fs = std::filesystem;

/// A folder for this process, removed when it ends.
struct Folder {
  Folder() {
    const char* base = std::getenv("TMPDIR");
    path = fs::path(base == nullptr ? "/tmp" : base) / ("loadstone-fuzz-zarr-" + std::to_string(::getpid()));
    fs::create_directories(path / "c" / "0");
    put(path / "0.0", {});
    // The keys of two dimensions; all are one file.
    fs::create_hard_link(path / "0.0", path / "0.1");
    fs::create_hard_link(path / "0.0", path / "c" / "0" / "0");
    fs::create_hard_link(path / "0.0", path / "c" / "0" / "1");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  static void put(const fs::path& file, std::string_view bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  fs::path path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace loadstone;
  static const Folder kFolder;
  const std::string_view text = fuzz::text_of(data, size);
  if (text.empty()) return 0;
  const std::size_t end = std::min(text.find('\0'), text.size());
  const bool v2 = text[0] == '2';
  fs::remove(kFolder.path / (v2 ? "zarr.json" : ".zarray"));
  Folder::put(kFolder.path / (v2 ? ".zarray" : "zarr.json"), text.substr(1, end - 1));
  Folder::put(kFolder.path / "0.0", text.substr(std::min(end + 1, text.size())));
  const Format& format = *find_format("zarr");
  fuzz::only_blames_input([&] {
    FileTable files;
    for (const Header& header : format.discover_store(kFolder.path.string(), pread_sources(), {}, files)) {
      fuzz::require(header.grid || header.file >= 0);
      const std::size_t chunks = header.grid ? header.grid->offsets.size() : 1;
      for (std::size_t k = 0; k < chunks; ++k) {
        Piece piece;
        piece.stored_shape = header.grid ? header.grid->chunk_shape : header.shape;
        piece.offset_bytes = header.grid ? header.grid->offsets[k] : header.offset_bytes;
        piece.stored_bytes =
            header.grid ? header.grid->stored_bytes[k] : std::max<std::int64_t>(header.stored_bytes, 0);
        const auto file = pread_sources().open(files.path(header.grid ? header.grid->files[k] : header.file));
        fuzz::require(piece.offset_bytes >= 0 && piece.stored_bytes >= 0 &&
                      piece.stored_bytes <= file->stamp().size_bytes - piece.offset_bytes);
        if (header.encoding) fuzz::decode_piece(format, *header.encoding, header.dtype, piece, *file);
      }
    }
  });
  return 0;
}
