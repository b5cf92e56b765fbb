#include "loadstone/exec/delivery.h"

#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone {

namespace {

constexpr std::int64_t kShortRow =
    512;  // bytes; shorter rows are gathered on the host before they are copied one by one

cuda::DevicePtr device_address(const std::byte* pointer) {
  return static_cast<cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(pointer));
}

ScatterCopy copy_of(const Parcel& parcel) {
  ScatterCopy out;
  out.from = address_of(parcel.from, parcel.part.begin, parcel.dtype);
  out.to = address_of(parcel.to, parcel.part.begin, parcel.dtype);
  out.extents = parcel.part.shape();
  out.from_strides = parcel.from.strides_bytes;
  out.to_strides = parcel.to.strides_bytes;
  out.itemsize = parcel.dtype.itemsize();
  out.swap = parcel.swap > 1 ? parcel.swap : 0;
  return out;
}

bool is_contiguous(const std::vector<CopyDim>& dims) {
  return dims.size() == 1 && dims[0].from == 1 && dims[0].to == 1;
}

}  // namespace

Delivery::Delivery(int ordinal)
    : stream_(ordinal), staging_(ordinal, stream_.get()), kernel_(cuda::kernel(ordinal, "loadstone_scatter")) {}

void Delivery::send_bytes(cuda::DevicePtr to, std::span<const std::byte> from) {
  cuda::check(cuda::driver()->memcpy_htod_async(to, from.data(), from.size(), stream_.get()),
              cat("copy ", from.size(), " bytes to cuda:", ordinal()));
}

void Delivery::send(std::span<const std::byte> host, const std::vector<Parcel>& parcels) {
  const cuda::Scope scope(ordinal());
  std::vector<ScatterCopy> strided;
  for (const Parcel& parcel : parcels) {
    const ScatterCopy copy = copy_of(parcel);
    const std::vector<CopyDim> dims = merged_dims(copy);
    if (dims.empty()) continue;
    if (is_contiguous(dims) && copy.swap == 0) {
      send_bytes(device_address(copy.to), {copy.from, static_cast<std::size_t>(dims[0].extent)});
    } else if (kernel_ != nullptr) {
      strided.push_back(copy);
    } else if (copy.swap != 0 || dims.back().from != 1 || dims.back().to != 1 || dims.back().extent < kShortRow) {
      copy_gathered(parcel);
    } else {
      copy_rows(copy, dims);
    }
  }
  if (!strided.empty()) scatter(host, std::move(strided));
}

/// All of the slot crosses in one piece; the kernel takes it apart at the speed of the GPU's memory.
void Delivery::scatter(std::span<const std::byte> host, std::vector<ScatterCopy> copies) {
  const cuda::DevicePtr staging = staging_.take(static_cast<std::int64_t>(host.size()));
  send_bytes(staging, host);
  for (ScatterCopy& copy : copies) {
    copy.from = reinterpret_cast<const std::byte*>(staging) + (copy.from - host.data());
  }
  for (ScatterJob& job : scatter_jobs(copies)) {
    void* arguments[] = {&job};
    cuda::check(cuda::driver()->launch_kernel(kernel_, scatter_blocks(job), static_cast<unsigned>(job.count), 1,
                                              ScatterJob::kThreads, 1, 1, 0, stream_.get(), arguments, nullptr),
                cat("scatter bytes on cuda:", ordinal()));
  }
}

/// Rows of the destination, two dimensions at a time.
void Delivery::copy_rows(const ScatterCopy& copy, std::vector<CopyDim> dims) {
  if (dims.back().from != 1 || dims.back().to != 1) dims.push_back({1, 1, 1});  // elements of one byte, apart
  const cuda::Driver& driver = *cuda::driver();
  const CopyDim& run = dims.back();
  const CopyDim rows = dims.size() > 1 ? dims[dims.size() - 2] : CopyDim{1, run.extent, run.extent};
  std::int64_t outer = 1;
  for (std::size_t d = 0; d + 2 < dims.size(); ++d) outer *= dims[d].extent;
  const bool pitched = rows.from >= run.extent && rows.to >= run.extent;
  for (std::int64_t i = 0; i < outer; ++i) {
    const std::byte* from = copy.from;
    std::byte* to = copy.to;
    std::int64_t rest = i;
    for (std::size_t d = dims.size() > 2 ? dims.size() - 2 : 0; d-- > 0;) {
      from += rest % dims[d].extent * dims[d].from;
      to += rest % dims[d].extent * dims[d].to;
      rest /= dims[d].extent;
    }
    if (pitched) {
      cuda::Memcpy2D what{};
      what.src_type = cuda::kMemoryHost;
      what.src_host = from;
      what.src_pitch = static_cast<std::size_t>(rows.from);
      what.dst_type = cuda::kMemoryDevice;
      what.dst_device = device_address(to);
      what.dst_pitch = static_cast<std::size_t>(rows.to);
      what.width = static_cast<std::size_t>(run.extent);
      what.height = static_cast<std::size_t>(rows.extent);
      cuda::check(driver.memcpy_2d_async(&what, stream_.get()), cat("copy rows to cuda:", ordinal()));
      continue;
    }
    for (std::int64_t row = 0; row < rows.extent; ++row) {
      send_bytes(device_address(to + row * rows.to), {from + row * rows.from, static_cast<std::size_t>(run.extent)});
    }
  }
}

/// Without a kernel: turned into the destination's order on the host. The copies from that pageable memory have taken
/// the bytes when they return.
void Delivery::copy_gathered(const Parcel& parcel) {
  const std::shared_ptr<Memory> memory = Memory::allocate_host(parcel.dtype.nbytes(parcel.part.num_elems()));
  const Block dense = dense_block(memory->base(), parcel.part, parcel.dtype);
  copy_part(dense, parcel.from, parcel.part, parcel.dtype, parcel.swap);
  const ScatterCopy copy = copy_of({parcel.to, dense, parcel.part, parcel.dtype, 1});
  copy_rows(copy, merged_dims(copy));
  // Asynchronous copies from pageable memory may return once the bytes are staged, or before on some systems.
  cuda::check(cuda::driver()->stream_synchronize(stream_.get()), cat("copy to cuda:", ordinal()));
}

}  // namespace loadstone
