#include "loadstone/array/view.h"

#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"

namespace loadstone {

View::View(std::shared_ptr<Memory> memory, std::int64_t offset_bytes, Layout layout, DType dtype, Order order)
    : memory_(std::move(memory)), layout_(std::move(layout)), dtype_(dtype), order_(order) {
  if (!memory_) throw internal_error("view without memory");
  readonly_ = memory_->readonly();
  if (layout_.num_elems() == 0) return;
  if (!dtype_.whole_bytes() && !layout_.contiguous()) {
    throw usage_error(cat("a strided view of ", to_string(dtype_), " would cut inside a byte"));
  }
  // For whole-byte types the lowest and the highest byte; packed types are contiguous from element 0.
  const bool whole = dtype_.whole_bytes();
  const auto low = checked_mul(whole ? layout_.min_offset() : 0, whole ? dtype_.itemsize() : 1);
  const auto last = checked_mul(whole ? layout_.max_offset() : 0, whole ? dtype_.itemsize() : 1);
  const auto high = last ? checked_add(*last, whole ? dtype_.itemsize() : nbytes()) : std::nullopt;
  const auto first = low ? checked_add(offset_bytes, *low) : std::nullopt;
  const auto end = high ? checked_add(offset_bytes, *high) : std::nullopt;
  if (!first || !end || *first < 0 || *end > memory_->bytes()) {
    throw usage_error(cat("view of shape ", to_string(layout_.shape()), " ", to_string(dtype_), " at byte ",
                          offset_bytes, " reaches outside its memory of ", memory_->bytes(), " bytes"));
  }
  data_ = memory_->base() + offset_bytes;
}

View View::allocate(const Shape& shape, DType dtype, Place place) {
  Layout layout(shape);
  auto memory = Memory::allocate_host(dtype.nbytes(layout.num_elems()), place);
  return View(std::move(memory), 0, std::move(layout), dtype);
}

std::span<std::byte> View::bytes() const {
  if (!layout_.contiguous()) throw usage_error("the bytes of a view that is not C-contiguous were asked for");
  if (!place().host_accessible()) {
    throw usage_error(cat("the bytes of memory on ", to_string(place()), " cannot be read from the host"));
  }
  return {data_, static_cast<std::size_t>(nbytes())};
}

View View::subview(const Box& box) const {
  if (box.ndim() != layout_.ndim() || !Box::whole(shape()).contains(box)) {
    throw usage_error(cat("box ", to_string(box), " does not lie inside a view of shape ", to_string(shape())));
  }
  View out = *this;
  out.layout_ = Layout(box.shape(), layout_.strides());
  out.data_ = nullptr;
  if (out.layout_.num_elems() == 0) return out;
  const std::int64_t bit = layout_.offset(box.begin) * dtype_.elem_bits();
  if (!dtype_.whole_bytes() && (!out.layout_.contiguous() || bit % 8 != 0)) {
    throw usage_error(cat("box ", to_string(box), " of ", to_string(dtype_), " would cut inside a byte"));
  }
  out.data_ = data_ + bit / 8;
  return out;
}

View View::as_readonly() const {
  View out = *this;
  out.readonly_ = true;
  return out;
}

}  // namespace loadstone
