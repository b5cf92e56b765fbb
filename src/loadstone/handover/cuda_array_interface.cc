#include "loadstone/handover/cuda_array_interface.h"

#include <algorithm>
#include <array>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"

namespace loadstone::cai {

namespace {

constexpr int kMaxDims = 64;
constexpr int kFirstTime = 240;
constexpr std::array<std::string_view, 8> kTimes{"M8[s]", "M8[ms]", "M8[us]", "M8[ns]",
                                                 "m8[s]", "m8[ms]", "m8[us]", "m8[ns]"};

void check_shape(const Shape& shape) {
  if (shape.size() > kMaxDims) throw usage_error(cat("shape: ", shape.size(), " dimensions, at most 64 are supported"));
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw usage_error(cat("shape ", to_string(shape), " has a negative dimension"));
  }
}

/// Element strides of byte strides. A dimension of extent 1 is never stepped along.
Dims elem_strides(const Shape& shape, const Dims& bytes, std::int64_t itemsize) {
  if (bytes.size() != shape.size()) {
    throw usage_error(cat("strides ", to_string(bytes), " do not fit shape ", to_string(shape)));
  }
  Dims out = Dims::filled(shape.size(), 0);
  for (int d = 0; d < shape.size(); ++d) {
    if (bytes[d] % itemsize != 0 && shape[d] > 1) {
      throw usage_error(cat("strides ", to_string(bytes), " are no multiples of the item size ", itemsize));
    }
    out[d] = bytes[d] / itemsize;
  }
  return out;
}

/// What is left to fail after check_shape and num_elems is an offset above 2^63-1.
Layout layout_of(const Shape& shape, const Dims& strides) {
  try {
    return Layout(shape, strides);
  } catch (const Error& error) {
    throw data_error(error.message());
  }
}

Order order_of(const Interface& interface, std::optional<Order> after) {
  if (interface.version < 3 || !interface.stream) return after.value_or(Order{});
  const std::int64_t stream = *interface.stream;
  if (stream == 0 && after) return *after;
  if (stream <= 0) {
    throw usage_error(cat("stream ", stream,
                          " is not allowed in the CUDA array interface (1 is the legacy default stream, 2 the "
                          "per-thread one); name the stream to wait for with after="));
  }
  return Order{Order::Kind::stream, static_cast<std::uintptr_t>(stream)};
}

}  // namespace

bool is_time(DType dtype) {
  return dtype.bits == 64 && dtype.lanes == 1 && dtype.code >= kFirstTime && dtype.code < kFirstTime + 8;
}

DType element_type(std::string_view typestr, std::optional<DType> stated) {
  const std::string_view desc = typestr.substr(std::min<std::size_t>(1, typestr.size()));
  if (typestr.starts_with('>')) throw usage_error("Big-endian data is not supported");
  if (stated && (desc.starts_with('V') || desc == "f1")) {
    if (stated->whole_bytes() && desc.substr(1) == std::to_string(stated->itemsize())) return *stated;
    throw usage_error(
        cat("Unsupported dtype: ", desc, ": its elements are not of the size of dtype=", to_string(*stated)));
  }
  const auto* time = std::find(kTimes.begin(), kTimes.end(), desc);
  const bool known_order = typestr.starts_with('<') || typestr.starts_with('|') || typestr.starts_with('=');
  if (known_order && time != kTimes.end()) {
    return DType{static_cast<std::uint8_t>(kFirstTime + (time - kTimes.begin())), 64, 1};
  }
  // The byte order says nothing about one byte, and "|" before a wider element means the machine's.
  if (known_order) {
    if (const auto disk = parse_typestr(cat("<", desc))) return disk->dtype;
  }
  const bool lost = desc.starts_with('V') || desc == "f1";
  throw usage_error(cat("Unsupported dtype: ", desc, lost ? " (name the type of these bytes with dtype=)" : ""));
}

std::string typestr(DType dtype) {
  if (is_time(dtype)) return cat("<", kTimes[static_cast<std::size_t>(dtype.code - kFirstTime)]);
  if (dtype == dtypes::kBFloat16) return "<V2";
  return numpy_typestr(dtype);
}

View foreign_view(std::uintptr_t data, const Shape& shape, const Dims& elem_strides, DType dtype, Place place,
                  bool readonly, Order order, Memory::Release release) {
  check_shape(shape);
  const std::int64_t count = num_elems(shape);
  const std::int64_t packed = dtype.nbytes(count);
  if (count > 0 && data == 0) throw usage_error(cat("pointer 0 with shape ", to_string(shape), ", which has elements"));
  if (count == 0) {
    auto nothing = std::make_shared<Memory>(nullptr, 0, place, readonly, std::move(release));
    return View(std::move(nothing), 0, Layout(shape), dtype, order);
  }
  Dims strides = elem_strides;
  for (int d = 0; d < strides.size() && d < shape.size(); ++d) {
    // Nobody steps along an extent of 1, but every export multiplies its stride.
    if (shape[d] == 1 && !checked_mul(strides[d], ceil_div(dtype.elem_bits(), 8))) strides[d] = 0;
  }
  const Layout layout = layout_of(shape, strides);
  std::int64_t low = 0;
  std::int64_t bytes = packed;
  if (dtype.whole_bytes()) {
    const auto first = checked_mul(layout.min_offset(), dtype.itemsize());
    const auto last = checked_mul(layout.max_offset(), dtype.itemsize());
    const auto below = first ? checked_mul(*first, -1) : std::nullopt;
    const auto span = below && last ? checked_add(*last, *below) : std::nullopt;
    const auto end = span ? checked_add(*span, dtype.itemsize()) : std::nullopt;
    if (!end) {
      throw data_error(cat("shape ", to_string(shape), " with element strides ", to_string(elem_strides),
                           " reaches over more than 2^63-1 bytes"));
    }
    low = *first;
    bytes = *end;
  }
  const std::uintptr_t start = data + static_cast<std::uintptr_t>(low);
  if ((low < 0 && start > data) || start > UINTPTR_MAX - static_cast<std::uintptr_t>(bytes)) {
    throw usage_error(cat("shape ", to_string(shape), " at pointer ", data, " leaves the address space"));
  }
  // Elements that share bytes must not be written through.
  bool broadcast = false;
  for (int d = 0; d < shape.size(); ++d) broadcast = broadcast || (elem_strides[d] == 0 && shape[d] > 1);
  auto memory = std::make_shared<Memory>(reinterpret_cast<std::byte*>(start), bytes, place, readonly || broadcast,
                                         std::move(release));
  return View(std::move(memory), -low, layout, dtype, order);
}

View import_view(const Interface& interface, Place place, std::optional<DType> stated, std::optional<Order> after,
                 Memory::Release release) {
  if (interface.version < 0 || interface.version > 3) {
    throw usage_error(cat("version ", interface.version, " of the array interface is not supported, 0 to 3 are"));
  }
  const DType dtype = element_type(interface.typestr, stated);
  check_shape(interface.shape);
  (void)dtype.nbytes(num_elems(interface.shape));  // before c_strides, which trusts the product
  const Dims strides = interface.strides ? elem_strides(interface.shape, *interface.strides, dtype.itemsize())
                                         : Layout(interface.shape).strides();
  return foreign_view(interface.address, interface.shape, strides, dtype, place, interface.readonly,
                      order_of(interface, after), std::move(release));
}

Interface export_view(const View& view) {
  Interface out;
  out.typestr = typestr(view.dtype());
  if (out.typestr.empty()) {
    throw usage_error(cat("the array interface has no type string for ", to_string(view.dtype()), ": use bytes()"));
  }
  if (view.order().kind == Order::Kind::event) {
    throw usage_error("the array interface names a stream, and these bytes are pending on an event");
  }
  out.version = 3;
  out.address = reinterpret_cast<std::uintptr_t>(view.data());
  out.readonly = view.readonly();
  out.shape = view.shape();
  if (!view.layout().contiguous()) {
    Dims strides = view.layout().strides();
    for (std::int64_t& stride : strides) {
      if (stride < 0) throw usage_error("the array interface of a view with negative strides is not exported");
      stride *= view.dtype().itemsize();
    }
    out.strides = strides;
  }
  if (view.order().kind == Order::Kind::stream) out.stream = static_cast<std::int64_t>(view.order().handle);
  return out;
}

}  // namespace loadstone::cai
