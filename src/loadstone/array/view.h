#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"
#include "loadstone/array/layout.h"
#include "loadstone/array/memory.h"
#include "loadstone/array/order.h"

namespace loadstone {

/// A typed, strided window on a Memory. Shares the Memory; the bytes live while any view does. Copying a view copies
/// the description, never the bytes. Every view made from another lies inside it.
class View {
 public:
  View() = default;
  /// Element 0 at memory->base() + offset_bytes. Error{usage} when the layout reaches outside the memory.
  View(std::shared_ptr<Memory> memory, std::int64_t offset_bytes, Layout layout, DType dtype, Order order = {});
  /// Fresh C-order host memory of this shape, uninitialised.
  static View allocate(const Shape& shape, DType dtype, Place place = {});

  /// Element 0; nullptr if and only if the view has no elements.
  std::byte* data() const { return data_; }
  const Layout& layout() const { return layout_; }
  const Shape& shape() const { return layout_.shape(); }
  DType dtype() const { return dtype_; }
  Place place() const { return memory_ ? memory_->place() : Place{}; }
  bool readonly() const { return readonly_; }
  Order order() const { return order_; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  /// num_elems x itemsize; sub-byte types round up once.
  std::int64_t nbytes() const { return dtype_.nbytes(layout_.num_elems()); }

  /// The bytes of a C-contiguous view in host-accessible memory. Error{usage} otherwise.
  std::span<std::byte> bytes() const;
  /// The part of the view inside `box` (in the view's own indices). Error{usage} when it does not lie inside.
  View subview(const Box& box) const;
  View as_readonly() const;

 private:
  std::shared_ptr<Memory> memory_;
  std::byte* data_ = nullptr;
  Layout layout_{Shape{0}};
  DType dtype_ = dtypes::kUInt8;
  bool readonly_ = false;
  Order order_;
};

}  // namespace loadstone
