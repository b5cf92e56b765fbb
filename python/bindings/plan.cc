#include "common.h"
#include "loadstone/base/text.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/plan/picture.h"
#include "loadstone/plan/plan_json.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace loadstone::python {

namespace {

nb::dict totals_of(const BoundPlan& self) {
  const PlanTotals& totals = self.plan.totals;
  nb::dict out;
  out["bytes_needed"] = totals.bytes_needed;
  out["bytes_placed"] = totals.bytes_placed;
  out["bytes_read"] = totals.bytes_read;
  out["over_read_bytes"] = totals.over_read_bytes;
  out["duplicate_bytes"] = totals.duplicate_bytes;
  out["exchanged_bytes"] = totals.exchanged_bytes;
  out["copied_bytes"] = totals.copied_bytes;
  out["pieces"] = totals.pieces;
  out["requests"] = totals.requests;
  out["absent_pieces"] = totals.absent_pieces;
  out["staging_bytes"] = totals.staging_bytes;
  out["peak_host_bytes"] = totals.peak_host_bytes;
  out["peak_device_bytes"] = totals.peak_device_bytes;
  out["predicted_seconds"] = totals.predicted_seconds;
  return out;
}

nb::list shards_of(const BoundPlan& self) {
  nb::list out;
  for (const Slot& slot : self.plan.slots) {
    const PlannedArray& array = self.plan.arrays[static_cast<std::size_t>(slot.array)];
    out.append(nb::cast(BoundShard{slot.shard, whole_dims(array.sharding, array.shape, slot.shard.box)}));
  }
  return out;
}

std::string svg_of(const BoundPlan& self, std::int64_t which) {
  const PlannedArray& array = self.plan.arrays.at(static_cast<std::size_t>(which));
  const ArrayEntry& entry = self.catalog->arrays[static_cast<std::size_t>(array.catalog_index)];
  SvgOptions options;
  options.title = printable(array.name) + " " + to_string(array.shape);
  if (!entry.tiling.scalar()) options.row_bounds = &entry.tiling.row_bounds();
  return draw_svg(array.sharding, array.shape, options);
}

std::shared_ptr<BoundPlan> plan_arrays(std::shared_ptr<Catalog> catalog, const std::vector<std::int64_t>& arrays,
                                       const std::vector<Sharding>& shardings, const std::string& strategy,
                                       std::optional<std::int64_t> memory_budget, std::int64_t over_decompose,
                                       std::int32_t process, int threads) {
  std::vector<ArrayRequest> requests;
  for (std::size_t i = 0; i < arrays.size(); ++i) requests.push_back({arrays[i], shardings[i]});
  PlanOptions options;
  options.strategy = parse_strategy(strategy);
  options.memory_budget = memory_budget;
  options.over_decompose = over_decompose;
  options.process = process;
  options.threads = threads > 0 ? threads : available_cores();
  const nb::gil_scoped_release released;
  return std::make_shared<BoundPlan>(BoundPlan{make_plan(*catalog, requests, options), std::move(catalog)});
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<BoundPlan>(
      m, "Plan",
      "Which bytes go where, for one process, before any byte moves. print(plan) shows it, a notebook "
      "draws it.")
      .def_prop_ro(
          "strategy", [](const BoundPlan& p) { return std::string(to_string(p.plan.strategy)); },
          "Who reads what: 'global', 'per_device' or 'per_process'.")
      .def_prop_ro(
          "process", [](const BoundPlan& p) { return p.plan.process; }, "The process this is the plan of.")
      .def_prop_ro("totals", &totals_of, nb::sig("def totals(self) -> dict[str, float]"),
                   "bytes_needed, bytes_read, over_read_bytes, duplicate_bytes, requests, peak_host_bytes, …; sizes in "
                   "bytes.")
      .def_prop_ro("shards", &shards_of, nb::sig("def shards(self) -> list[Shard]"),
                   "The shard of every device of this process, array by array in mesh order.")
      .def_prop_ro(
          "names",
          [](const BoundPlan& p) {
            nb::list out;
            for (const PlannedArray& array : p.plan.arrays) out.append(path_str(array.name));
            return out;
          },
          nb::sig("def names(self) -> list[str]"), "The arrays planned for.")
      .def_prop_ro(
          "shapes",
          [](const BoundPlan& p) {
            nb::list out;
            for (const PlannedArray& array : p.plan.arrays) out.append(tuple_from(array.shape));
            return out;
          },
          nb::sig("def shapes(self) -> list[tuple[int, ...]]"), "Their shapes.")
      .def_prop_ro(
          "shardings",
          [](const BoundPlan& p) {
            std::vector<Sharding> out;
            for (const PlannedArray& array : p.plan.arrays) out.push_back(array.sharding);
            return out;
          },
          "Their shardings.")
      .def_prop_ro(
          "notes", [](const BoundPlan& p) { return path_strs(p.plan.notes); }, nb::sig("def notes(self) -> list[str]"),
          "What a person should know: idle devices, uneven tiles, over-read.")
      .def_prop_ro(
          "fingerprint", [](const BoundPlan& p) { return fingerprint(*p.catalog, p.plan); },
          "Hex fingerprint of all that processes must agree on.")
      .def(
          "explain", [](const BoundPlan& p) { return path_str(explain(*p.catalog, p.plan)); },
          nb::sig("def explain(self) -> str"),
          "Each strategy considered with its numbers and the reason, and how each read is coalesced.")
      .def(
          "json",
          [](const BoundPlan& p) { return nb::module_::import_("json").attr("loads")(to_json(*p.catalog, p.plan)); },
          nb::sig("def json(self) -> dict[str, typing.Any]"), "The `plan` object of `loadstone plan --json`.")
      .def(
          "__str__", [](const BoundPlan& p) { return path_str(to_string(p.plan)); },
          nb::sig("def __str__(self) -> str"))
      .def(
          "__repr__", [](const BoundPlan& p) { return path_str(to_string(p.plan)); },
          nb::sig("def __repr__(self) -> str"))
      .def("_repr_svg_", [](const BoundPlan& p) { return svg_of(p, 0); })
      .def("_svg", &svg_of, nb::arg("array"))
      .def(
          "_repr_html_", [](nb::object self) { return helper("_html", "plan")(self); },
          nb::sig("def _repr_html_(self) -> str"));

  m.def("plan_arrays", &plan_arrays, nb::arg("catalog"), nb::arg("arrays"), nb::arg("shardings"), nb::arg("strategy"),
        nb::arg("memory_budget").none(), nb::arg("over_decompose"), nb::arg("process"), nb::arg("threads"));
  m.def(
      "parse_bytes", [](const std::string& text) { return parse_bytes(text); }, nb::arg("text"),
      "'2 GiB' → 2147483648. ValueError when it is not a size.");
}

}  // namespace loadstone::python
