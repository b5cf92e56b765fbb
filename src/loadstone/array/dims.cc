#include "loadstone/array/dims.h"

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

std::int64_t num_elems(const Shape& shape) {
  std::int64_t count = 1;
  bool overflow = false;
  bool zero = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw data_error(cat("shape ", to_string(shape), " has a negative dimension"));
    zero = zero || extent == 0;
    const auto product = checked_mul(count, extent);
    overflow = overflow || !product;
    count = product.value_or(1);
  }
  if (zero) return 0;
  if (overflow) throw data_error(cat("shape ", to_string(shape), " has more than 2^63-1 elements"));
  return count;
}

std::string to_string(const Dims& dims) {
  std::string out = "(";
  for (int d = 0; d < dims.size(); ++d) out += cat(d > 0 ? ", " : "", dims[d]);
  return out + (dims.size() == 1 ? ",)" : ")");
}

namespace {
/// A product that does not fit is only met in arrays without elements, where no stride is ever used.
std::int64_t stride_beyond(std::int64_t stride, std::int64_t extent) {
  return checked_mul(stride, std::max<std::int64_t>(extent, 1)).value_or(stride);
}
}  // namespace

Dims c_strides(const Shape& shape) {
  Dims strides = Dims::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d) strides[d] = stride_beyond(strides[d + 1], shape[d + 1]);
  return strides;
}

Dims f_strides(const Shape& shape) {
  Dims strides = Dims::filled(shape.size(), 1);
  for (int d = 1; d < shape.size(); ++d) strides[d] = stride_beyond(strides[d - 1], shape[d - 1]);
  return strides;
}

Shape parse_shape(std::string_view text, std::string_view what) {
  Shape shape;
  if (text.empty()) return shape;
  for (const std::string& part : split(text, ',')) {
    std::int64_t extent = 0;
    if (!parse_int(part, extent) || extent < 0) {
      throw usage_error(
          cat(what, " '", text, "' is not a shape: expected integers >= 0 with commas between, as in 3,4"));
    }
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace loadstone
