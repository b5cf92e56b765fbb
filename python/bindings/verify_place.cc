#include <nanobind/stl/string.h>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_driver.h"
#include "memory_view.h"

namespace loadstone::python {

namespace {

nb::object place_tuple(Place place) {
  return nb::make_tuple(static_cast<std::int64_t>(place.kind), place.ordinal);
}
nb::object range_tuple(const AddressRange& range) {
  return nb::make_tuple(range.begin, range.bytes);
}

std::string repr(const PlaceReport& report) {
  return cat("PlaceReport(", verdict_name(report.verdict), report.reason.empty() ? "" : ": ", report.reason, ")");
}

/// The same bytes, said to be elsewhere.
View view_on(const View& view, Place place) {
  const std::shared_ptr<Memory>& memory = view.memory();
  auto placed = std::make_shared<Memory>(memory->base(), memory->bytes(), place, view.readonly(),
                                         [memory = memory](std::byte*, std::int64_t) {});
  const std::int64_t offset = view.data() != nullptr ? view.data() - memory->base() : 0;
  return View(std::move(placed), offset, view.layout(), view.dtype(), view.order());
}

/// Nothing lies anywhere in an empty view: it counts as of the GPU that is current, as in CUDA's own runtime.
Place current_gpu() {
  const cuda::Driver* const driver = cuda::driver();
  if (driver == nullptr) return kUnclaimedCuda;
  cuda::Device device = 0;
  return {PlaceKind::cuda, driver->ctx_get_device(&device) == cuda::kSuccess ? device : 0};
}

}  // namespace

void settle_place(MemoryView& imported, Place claim, bool take_drivers) {
  const View& view = imported.view;
  Place place = view.place();
  if (view.data() == nullptr) {
    if (claim == kUnclaimedCuda) imported.view = view_on(view, current_gpu());
    return;
  }
  const PlaceReport report = check_place(view, claim);
  if (report.verdict == PlaceVerdict::mismatch) {
    const nb::object error = helper("_errors", "PlaceMismatchError")(nb::cast(report));
    PyErr_SetObject(error.type().ptr(), error.ptr());
    throw nb::python_error();
  }
  imported.verified = report.verdict == PlaceVerdict::ok;
  if (!report.found) return;
  // Of an address that it does not know the driver says host, which is no answer to "which GPU".
  if (take_drivers || (claim.kind == PlaceKind::cuda && report.found->kind != PlaceKind::host)) place = *report.found;
  if (place != view.place()) imported.view = view_on(view, place);
}

void bind_place_report(nb::module_& m) {
  nb::class_<PlaceReport>(m, "PlaceReport",
                          "Where memory is said to lie, and what the CUDA driver says: MemoryView.verify().")
      .def_prop_ro(
          "claim", [](const PlaceReport& r) { return r.claim == kUnclaimedCuda ? nb::none() : place_tuple(r.claim); },
          nb::sig("def claim(self) -> tuple[int, int] | None"),
          "(kind, ordinal) as the view has it; None where nothing names a device.")
      .def_prop_ro(
          "found", [](const PlaceReport& r) { return r.found ? place_tuple(*r.found) : nb::none(); },
          nb::sig("def found(self) -> tuple[int, int] | None"),
          "(kind, ordinal) as the driver has it; kind 1 for an address that it does not know. None where it was not "
          "asked.")
      .def_prop_ro(
          "range", [](const PlaceReport& r) { return r.range ? range_tuple(*r.range) : nb::none(); },
          nb::sig("def range(self) -> tuple[int, int] | None"),
          "(address, bytes) of the driver's allocation; None where it tells none.")
      .def_prop_ro(
          "extent", [](const PlaceReport& r) { return range_tuple(r.extent); },
          nb::sig("def extent(self) -> tuple[int, int]"), "(lowest address, bytes) that the view reaches.")
      .def_prop_ro(
          "verdict", [](const PlaceReport& r) { return std::string(verdict_name(r.verdict)); },
          "'ok', 'mismatch' or 'unchecked'.")
      .def_prop_ro(
          "reason", [](const PlaceReport& r) { return r.reason; }, "Why it is not ok; '' where it is.")
      .def("__repr__", &repr);
}

void bind_verify_place(nb::class_<MemoryView>& cls) {
  cls.def(
         "verify", [](const MemoryView& v) { return check_place(v.live(), v.view.place()); },
         nb::sig("def verify(self) -> PlaceReport"),
         "Asks the CUDA driver where the bytes lie and whether one allocation holds them all. Reads none of them.")
      .def_prop_ro(
          "verified", [](const MemoryView& v) { return v.live(), v.verified; }, nb::sig("def verified(self) -> bool"),
          "True if the driver confirmed at construction where the bytes lie. Slices have their parent's answer.");
}

}  // namespace loadstone::python
