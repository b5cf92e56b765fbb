#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace loadstone {

/// What the first bytes of a file that no Format recognised look like.
struct Sniffed {
  std::string what;              ///< for people: "a Git LFS pointer", else its first bytes
  std::string_view data_format;  ///< "safetensors", "hdf5", … the format that it looks like, or ""
  bool named = true;             ///< false when `what` only quotes the first bytes
};
/// `name` is the file's name: a zip archive called .npz is NumPy's, and text formats have no magic.
Sniffed sniff(std::span<const std::byte> head, std::int64_t size_bytes, std::string_view name);

/// The last component of a path without trailing slashes.
std::string_view base_name(std::string_view path);
/// All before the last component, without the slash; "" for a bare name, "/" for the root.
std::string_view folder_of(std::string_view path);
/// From the last dot of the last component on, lower case, as in ".npy"; "" when there is none.
std::string extension_of(std::string_view path);
/// `name` inside `folder`.
std::string join_path(std::string_view folder, std::string_view name);

}  // namespace loadstone
