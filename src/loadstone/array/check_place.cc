#include "loadstone/array/check_place.h"

#include <array>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_driver.h"

namespace loadstone {

namespace {

/// What one plural query answers. Of an address that the driver does not know it leaves the range as it was.
struct Answer {
  unsigned type = cuda::kMemoryUnknown;
  unsigned managed = 0;
  int ordinal = 0;
  cuda::DevicePtr begin = 0;
  std::size_t bytes = 0;
};

cuda::Result ask(const cuda::Driver& driver, std::uintptr_t address, Answer& out) {
  std::array<int, 5> which{cuda::kPointerMemoryType, cuda::kPointerIsManaged, cuda::kPointerDeviceOrdinal,
                           cuda::kPointerRangeStart, cuda::kPointerRangeSize};
  std::array<void*, 5> where{&out.type, &out.managed, &out.ordinal, &out.begin, &out.bytes};
  return driver.pointer_get_attributes(static_cast<unsigned>(which.size()), which.data(), where.data(),
                                       static_cast<cuda::DevicePtr>(address));
}

std::optional<Place> place_of(const Answer& answer) {
  if (answer.managed != 0) return Place{PlaceKind::managed, answer.ordinal};
  switch (answer.type) {
    case cuda::kMemoryUnknown: return Place{};
    case cuda::kMemoryHost: return Place{PlaceKind::pinned, answer.ordinal};
    case cuda::kMemoryDevice: return Place{PlaceKind::cuda, answer.ordinal};
    default: return std::nullopt;
  }
}

bool agree(Place claim, Place found) {
  if (claim == kUnclaimedCuda) return true;
  switch (claim.kind) {
    case PlaceKind::host: return found.kind != PlaceKind::cuda;
    case PlaceKind::cuda: return found.kind == PlaceKind::managed || claim == found;
    default: return claim.kind == found.kind;
  }
}

AddressRange extent_of(const View& view) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data());
  const Layout& layout = view.layout();
  if (!view.dtype().whole_bytes()) return {address, static_cast<std::uint64_t>(view.nbytes())};
  // A View lies inside its memory: no offset overflows.
  const std::int64_t itemsize = view.dtype().itemsize();
  return {address + static_cast<std::uintptr_t>(layout.min_offset() * itemsize),
          static_cast<std::uint64_t>((layout.max_offset() - layout.min_offset() + 1) * itemsize)};
}

bool cuda_kind(PlaceKind kind) {
  return kind == PlaceKind::host || kind == PlaceKind::cuda || kind == PlaceKind::pinned || kind == PlaceKind::managed;
}

std::string text_of(const AddressRange& range) {
  return cat(range.bytes, " bytes at address ", range.begin);
}

PlaceReport ended(PlaceReport report, PlaceVerdict verdict, std::string reason) {
  report.verdict = verdict;
  report.reason = std::move(reason);
  return report;
}

}  // namespace

std::string_view verdict_name(PlaceVerdict verdict) {
  switch (verdict) {
    case PlaceVerdict::ok: return "ok";
    case PlaceVerdict::mismatch: return "mismatch";
    case PlaceVerdict::unchecked: break;
  }
  return "unchecked";
}

PlaceReport check_place(const View& view, Place claim) {
  constexpr auto kUnchecked = PlaceVerdict::unchecked;
  PlaceReport report{claim};
  if (view.data() == nullptr) return ended(std::move(report), kUnchecked, "the view is empty");
  report.extent = extent_of(view);
  if (!cuda_kind(claim.kind)) {
    return ended(std::move(report), kUnchecked, cat("the CUDA driver does not know memory on ", to_string(claim)));
  }
  const cuda::Driver* const driver = cuda::driver();
  if (driver == nullptr) return ended(std::move(report), kUnchecked, cuda::driver_problem());
  Answer answer;
  if (const cuda::Result result = ask(*driver, report.extent.begin, answer); result != cuda::kSuccess) {
    return ended(std::move(report), kUnchecked, cat("the driver does not answer: ", cuda::result_text(result)));
  }
  const std::optional<Place> found = place_of(answer);
  if (!found) return ended(std::move(report), kUnchecked, cat("the driver says memory type ", answer.type));
  report.found = found;
  const bool known = answer.type != cuda::kMemoryUnknown || answer.managed != 0;
  if (!agree(claim, *found)) {
    return ended(std::move(report), PlaceVerdict::mismatch,
                 cat("the memory is said to be on ", to_string(claim), ", the driver ",
                     known ? cat("says ", to_string(*found)) : "does not know it (freed, or never of a GPU)"));
  }
  if (!known || answer.begin == 0) {
    return ended(std::move(report), kUnchecked,
                 known ? "the driver tells no range of this memory" : "the driver does not know this memory");
  }
  report.range = AddressRange{static_cast<std::uintptr_t>(answer.begin), answer.bytes};
  if (report.range->contains(report.extent)) return ended(std::move(report), PlaceVerdict::ok, "");
  // Host memory may be page-locked in part; that is no bound of it.
  const auto verdict = claim.kind == PlaceKind::host ? kUnchecked : PlaceVerdict::mismatch;
  std::string reason = cat("the view reaches ", text_of(report.extent), ", the allocation is ", text_of(*report.range));
  return ended(std::move(report), verdict, std::move(reason));
}

}  // namespace loadstone
