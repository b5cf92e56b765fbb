#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "loadstone/base/error.h"

namespace loadstone {

/// A table of an untrusted FlatBuffer (Arrow's metadata). Every access is checked against the buffer; what points
/// outside is an Error{data}. Fields are numbered as in the schema; absent ones have their default. Little-endian
/// hosts. Source: FlatBuffers internals, https://flatbuffers.dev/internals
class FlatTable {
 public:
  /// A vector: where its elements begin, and how many.
  struct Vector {
    std::size_t begin = 0;
    std::size_t size = 0;
  };

  static FlatTable root(std::span<const std::byte> buffer) {
    FlatTable whole(buffer, 0);
    return whole.at(whole.load<std::uint32_t>(0));
  }

  template <typename T>
  T scalar(int field, T fallback) const {
    const std::size_t place = find(field);
    return place == 0 ? fallback : load<T>(place);
  }
  std::string_view text(int field) const {
    const Vector found = vector(field, 1);
    return {reinterpret_cast<const char*>(buffer_.data()) + found.begin, found.size};
  }
  std::optional<FlatTable> table(int field) const {
    const std::size_t place = find(field);
    if (place == 0) return std::nullopt;
    return at(place + load<std::uint32_t>(place));
  }
  /// Elements of `element_bytes` each; an absent vector is empty.
  Vector vector(int field, std::size_t element_bytes) const {
    const std::size_t place = find(field);
    if (place == 0) return {};
    const std::size_t start = place + load<std::uint32_t>(place);
    const std::size_t size = load<std::uint32_t>(start);
    if (size > (buffer_.size() - start - 4) / element_bytes) corrupt();
    return {start + 4, size};
  }
  /// Element `i` of a vector of tables.
  FlatTable element(Vector tables, std::size_t i) const {
    const std::size_t place = tables.begin + 4 * i;
    return at(place + load<std::uint32_t>(place));
  }
  /// A number at a byte of the buffer: members of structs in a vector.
  template <typename T>
  T load(std::size_t place) const {
    if (place > buffer_.size() || sizeof(T) > buffer_.size() - place) corrupt();
    T out;
    std::memcpy(&out, buffer_.data() + place, sizeof out);
    return out;
  }
  std::size_t buffer_bytes() const { return buffer_.size(); }

 private:
  FlatTable(std::span<const std::byte> buffer, std::size_t place) : buffer_(buffer), place_(place) {}

  FlatTable at(std::size_t place) const {
    FlatTable out(buffer_, place);
    const std::int64_t vtable = static_cast<std::int64_t>(place) - out.load<std::int32_t>(place);
    if (vtable < 0) corrupt();
    out.vtable_ = static_cast<std::size_t>(vtable);
    out.vtable_bytes_ = out.load<std::uint16_t>(out.vtable_);
    return out;
  }
  /// Where a field's value lies; 0 when it is absent.
  std::size_t find(int field) const {
    const std::size_t slot = 4 + 2 * static_cast<std::size_t>(field);
    if (slot + 2 > vtable_bytes_) return 0;
    const std::size_t offset = load<std::uint16_t>(vtable_ + slot);
    return offset == 0 ? 0 : place_ + offset;
  }
  [[noreturn]] static void corrupt() { throw data_error("the Arrow metadata points outside itself"); }

  std::span<const std::byte> buffer_;
  std::size_t place_ = 0, vtable_ = 0, vtable_bytes_ = 0;
};

}  // namespace loadstone
