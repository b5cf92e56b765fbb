#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "loadstone/array/view.h"

/// The CUDA Array Interface (versions 0 to 3) and NumPy's array interface as plain structs. A binding fills them from a
/// mapping; nothing here knows Python, touches the memory or calls a driver.
namespace loadstone::cai {

/// What the mapping says. Byte strides.
struct Interface {
  std::uintptr_t address = 0;
  bool readonly = false;
  Shape shape;
  std::optional<Dims> strides;  ///< absent: C order
  std::string typestr;
  std::int64_t version = 0;            ///< a missing one counts as 0
  std::optional<std::int64_t> stream;  ///< from version 3 on
};

/// The element type of a type string: the NumPy types, datetime64 and timedelta64 in s, ms, us and ns (private codes
/// 240 to 247, which DLPack never sees). `stated` names the type of V and f1, whose type string cannot; it must have
/// the size of an element. Error{usage} "Big-endian data is not supported" or "Unsupported dtype: …".
DType element_type(std::string_view typestr, std::optional<DType> stated = std::nullopt);
/// The little-endian type string: "<f4", "|u1", "<M8[ns]", "<V2" for bfloat16; "" where there is none.
std::string typestr(DType dtype);
/// True for the private codes of datetime64 and timedelta64.
bool is_time(DType dtype);

/// The view that the interface describes. Its Memory is exactly the bytes that the view reaches and calls `release` at
/// its end. Error{usage} naming the field and the value: version above 3, stream 0 or negative, address 0 with
/// elements, a negative or more than 64 dimensions, strides that cut elements. Error{data} when shape or extent pass
/// 2^63-1. `after` replaces a stream that is absent or 0.
View import_view(const Interface& interface, Place place, std::optional<DType> stated = std::nullopt,
                 std::optional<Order> after = std::nullopt, Memory::Release release = nullptr);

/// The view as version 3: strides absent when C-contiguous, address 0 when empty, stream only while one is pending.
/// Error{usage} for types without a type string, negative strides (PyTorch aborts on them) and an order that is an
/// event.
Interface export_view(const View& view);

/// A view of `bytes` at `data` with element 0 there: the one place where a foreign address becomes a Memory.
/// Same errors as import_view.
View foreign_view(std::uintptr_t data, const Shape& shape, const Dims& elem_strides, DType dtype, Place place,
                  bool readonly, Order order, Memory::Release release);

}  // namespace loadstone::cai
