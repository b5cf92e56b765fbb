#include "common.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace loadstone::python {

namespace {

/// Memory of the caller's as destinations, one view a slot. Everything is checked at the first call, before any I/O.
class CallersBuffers : public BufferProvider {
 public:
  explicit CallersBuffers(std::vector<View> views) : views_(std::move(views)) {}

  View buffer(const Plan& plan, std::int32_t slot) override {
    if (!checked_) check(plan);
    checked_ = true;
    const View& view = views_[static_cast<std::size_t>(slot)];
    const Place place = plan.slots[static_cast<std::size_t>(slot)].shard.device.place;
    // The same bytes under the device's name; `view` keeps the caller's array.
    auto memory =
        std::make_shared<Memory>(view.data(), view.nbytes(), place, false, [view](std::byte*, std::int64_t) {});
    return View(std::move(memory), 0, view.layout(), view.dtype());
  }

 private:
  void check(const Plan& plan) const {
    if (views_.size() != plan.slots.size()) {
      throw usage_error(
          cat("out: expected one array for each of the ", plan.slots.size(), " local devices, found ", views_.size()));
    }
    for (std::size_t i = 0; i < views_.size(); ++i) check_one(plan, i);
    for (std::size_t i = 0; i < views_.size(); ++i) {
      for (std::size_t k = i + 1; k < views_.size(); ++k) {
        const View& a = views_[i];
        const View& b = views_[k];
        if (a.data() == nullptr || b.data() == nullptr) continue;
        if (a.data() < b.data() + b.nbytes() && b.data() < a.data() + a.nbytes()) {
          throw usage_error(cat("out: arrays ", i, " and ", k, " share memory"));
        }
      }
    }
  }

  void check_one(const Plan& plan, std::size_t i) const {
    const View& view = views_[i];
    const Slot& slot = plan.slots[i];
    const PlannedArray& array = plan.arrays[static_cast<std::size_t>(slot.array)];
    const std::string subject = cat("out for ", to_string(slot.shard.device), ": ");
    const auto refuse = [&](std::string_view what, const std::string& expected, const std::string& found) {
      ErrorFacts facts;
      facts.expected = expected;
      facts.found = found;
      return usage_error(cat(subject, what, ": expected ", expected, ", found ", found), std::move(facts));
    };
    if (view.dtype() != array.dtype) throw refuse("dtype", to_string(array.dtype), to_string(view.dtype()));
    const Shape shape = slot.shard.box.shape();
    if (!(view.shape() == shape)) throw refuse("shape", to_string(shape), to_string(view.shape()));
    if (view.readonly()) throw usage_error(cat(subject, "the array is read-only"));
    if (!view.layout().contiguous()) throw usage_error(cat(subject, "the array is not C-contiguous"));
  }

  std::vector<View> views_;
  bool checked_ = false;
};

VerifyMode verify_mode(std::string_view text) {
  if (text == "none") return VerifyMode::none;
  if (text == "source") return VerifyMode::source;
  if (text == "full") return VerifyMode::full;
  throw usage_error(cat("verify '", text, "' is unknown: expected True, False or 'source'"));
}

/// The part of a load that is one array's.
BoundPlacement part_of(const LoadResult& loaded, std::int32_t array, const std::shared_ptr<BoundPlan>& plan,
                       const std::shared_ptr<Verdict>& verdict) {
  BoundPlacement out{{loaded.placement.process,
                      {loaded.placement.arrays[static_cast<std::size_t>(array)]},
                      {},
                      loaded.placement.stats},
                     plan,
                     verdict};
  for (const PlacedShard& shard : loaded.placement.shards) {
    if (shard.array == array) out.placement.shards.push_back({0, shard.shard, shard.data});
  }
  return out;
}

std::vector<BoundPlacement> load_arrays(std::shared_ptr<Catalog> catalog, const std::vector<std::int64_t>& arrays,
                                        const std::vector<Sharding>& shardings, const std::string& strategy,
                                        std::optional<std::int64_t> memory_budget, std::int64_t over_decompose,
                                        std::int32_t process, int threads, const std::string& verify,
                                        const Manifest* manifest, std::optional<std::vector<MemoryView>> out,
                                        nb::object progress) {
  std::vector<ArrayRequest> requests;
  for (std::size_t i = 0; i < arrays.size(); ++i) requests.push_back({arrays[i], shardings[i]});
  Session session(std::move(progress));
  std::optional<CallersBuffers> callers;
  if (out) {
    std::vector<View> views;
    for (const MemoryView& view : *out) views.push_back(shared_view(view));
    callers.emplace(std::move(views));
  }
  LoadOptions options;
  options.plan.strategy = parse_strategy(strategy);
  options.plan.memory_budget = memory_budget;
  options.plan.over_decompose = over_decompose;
  options.plan.process = process;
  options.threads = threads;
  options.verify = verify_mode(verify);
  options.manifest = manifest;
  options.buffers = callers ? &*callers : nullptr;
  options.cancel = session.cancel();
  options.progress = session.progress();
  LoadResult loaded = session.run([&] { return load(*catalog, requests, options); });

  auto plan = std::make_shared<BoundPlan>(BoundPlan{std::move(loaded.plan), std::move(catalog)});
  auto verdict = loaded.verdict ? std::make_shared<Verdict>(std::move(*loaded.verdict)) : nullptr;
  std::vector<BoundPlacement> parts;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    parts.push_back(part_of(loaded, static_cast<std::int32_t>(i), plan, verdict));
  return parts;
}

/// A placement made of buffers that another library holds: shard k of `positions` holds views[k].
BoundPlacement placement_of(nb::str name, const std::string& dtype, nb::object shape, const Sharding& sharding,
                            const std::vector<std::int64_t>& positions, const std::vector<MemoryView>& views) {
  Placement placement;
  const Shape dims = dims_from(shape, "shape");
  placement.arrays.push_back({bytes_of(name), parse_dtype(dtype).dtype, dims, sharding});
  const std::vector<Shard> shards = sharding.shards(dims, positions);
  for (std::size_t k = 0; k < shards.size(); ++k) {
    View view = shared_view(views[k]);
    // Under the name of the device that the sharding gives it: host arrays do not know which host device they are.
    if (view.data() != nullptr && view.place() != shards[k].device.place) {
      const std::int64_t low = view.layout().min_offset() * view.dtype().itemsize();
      const std::int64_t high = (view.layout().max_offset() + 1) * view.dtype().itemsize();
      auto memory = std::make_shared<Memory>(view.data() + low, high - low, shards[k].device.place, view.readonly(),
                                             [view](std::byte*, std::int64_t) {});
      view = View(std::move(memory), -low, view.layout(), view.dtype());
    }
    placement.process = shards[k].device.process;
    placement.shards.push_back({0, shards[k], std::move(view)});
  }
  return {std::move(placement), nullptr, nullptr};
}

std::shared_ptr<Verdict> verify_placement(const BoundPlacement& held, std::shared_ptr<Catalog> catalog, nb::str name,
                                          const Manifest* manifest, int threads, nb::object progress) {
  Placement placement = held.placement;
  for (PlacedArray& array : placement.arrays) array.name = bytes_of(name);
  Session session(std::move(progress));
  CheckOptions options;
  options.manifest = manifest;
  options.threads = threads;
  options.cancel = session.cancel();
  options.progress = session.progress();
  return session.run([&] { return std::make_shared<Verdict>(verify(placement, *catalog, options)); });
}

nb::dict stats_of(const BoundPlacement& self) {
  const LoadStats& stats = self.placement.stats;
  nb::dict out;
  out["seconds"] = stats.seconds;
  out["bytes_read"] = stats.bytes_read;
  out["bytes_copied"] = stats.bytes_copied;
  out["requests"] = stats.requests;
  out["opens"] = stats.opens;
  out["files_direct"] = stats.files_direct;
  out["windows"] = stats.windows;
  out["decoded_pieces"] = stats.decoded_pieces;
  out["absent_pieces"] = stats.absent_pieces;
  out["peak_staging_bytes"] = stats.peak_staging_bytes;
  out["decoded_pieces"] = stats.decoded_pieces;
  out["absent_pieces"] = stats.absent_pieces;
  out["threads"] = stats.threads;
  return out;
}

nb::list shards_of(const BoundPlacement& self) {
  nb::list out;
  const PlacedArray& array = self.placement.arrays.front();
  for (const PlacedShard& placed : self.placement.shards) {
    BoundPlacedShard shard;
    shard.shard = placed.shard;
    shard.whole = whole_dims(array.sharding, array.shape, placed.shard.box);
    shard.data = placed.data;
    out.append(nb::cast(std::move(shard)));
  }
  return out;
}

std::string repr(const BoundPlacement& self) {
  const PlacedArray& array = self.placement.arrays.front();
  std::string out =
      cat("Placement(", printable(array.name), ", shape=", to_string(array.shape), ", dtype=", to_string(array.dtype),
          ", ", self.placement.shards.size(), self.placement.shards.size() == 1 ? " shard" : " shards");
  if (self.verdict) out += self.verdict->ok() ? ", verified" : ", NOT VERIFIED";
  return out + ")";
}

}  // namespace

void bind_load(nb::module_& m) {
  nb::class_<BoundPlacedShard, BoundShard>(m, "PlacedShard", "A shard with its bytes.")
      .def_prop_ro(
          "data", [](const BoundPlacedShard& s) { return MemoryView{s.data}; },
          "C-order elements of the box in native byte order. Shares the memory; writable.");

  nb::class_<BoundPlacement>(m, "Placement", "What a load leaves: one array's shards on the devices of this process.")
      .def_prop_ro(
          "name", [](const BoundPlacement& p) { return path_str(p.placement.arrays.front().name); },
          nb::sig("def name(self) -> str"), "Name of the array.")
      .def_prop_ro(
          "shape", [](const BoundPlacement& p) { return tuple_from(p.placement.arrays.front().shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Shape of the whole array.")
      .def_prop_ro(
          "dtype", [](const BoundPlacement& p) { return numpy_dtype(p.placement.arrays.front().dtype); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"), "Type of an element.")
      .def_prop_ro(
          "sharding", [](const BoundPlacement& p) { return p.placement.arrays.front().sharding; },
          "The sharding it was loaded with.")
      .def_prop_ro(
          "process", [](const BoundPlacement& p) { return p.placement.process; }, "Whose shards these are.")
      .def_prop_ro("shards", &shards_of, nb::sig("def shards(self) -> list[PlacedShard]"),
                   "In mesh order: device, id, process, index, replica_id, data.")
      .def_prop_ro("stats", &stats_of, nb::sig("def stats(self) -> dict[str, float]"),
                   "What the load cost: seconds, bytes_read, requests, opens, peak_staging_bytes, threads, …")
      .def_prop_ro(
          "plan", [](const BoundPlacement& p) { return p.plan; }, nb::sig("def plan(self) -> Plan | None"),
          "The plan that was carried out.")
      .def_prop_ro(
          "verdict", [](const BoundPlacement& p) { return p.verdict; }, nb::sig("def verdict(self) -> Verdict | None"),
          "Set when the load was verified.")
      .def("_assemble",
           [](const BoundPlacement& p) {
             const nb::gil_scoped_release released;
             return MemoryView{assemble(p.placement, 0)};
           })
      .def(
          "numpy", [](nb::object self) { return helper("_dtypes", "as_array")(self.attr("_assemble")()); },
          nb::sig("def numpy(self) -> numpy.typing.NDArray[typing.Any]"),
          "The whole array in fresh memory. ValueError when this process's shards do not cover it.")
      .def("__repr__", &repr)
      .def(
          "_repr_html_", [](nb::object self) { return helper("_html", "placement")(self); },
          nb::sig("def _repr_html_(self) -> str"));

  m.def("load_arrays", &load_arrays, nb::arg("catalog"), nb::arg("arrays"), nb::arg("shardings"), nb::arg("strategy"),
        nb::arg("memory_budget").none(), nb::arg("over_decompose"), nb::arg("process"), nb::arg("threads"),
        nb::arg("verify"), nb::arg("manifest").none(), nb::arg("out").none(), nb::arg("progress").none());
  m.def("placement_of", &placement_of, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("sharding"),
        nb::arg("positions"), nb::arg("views"),
        nb::sig("def placement_of(name: str, dtype: str, shape: typing.Sequence[int], sharding: Sharding, positions: "
                "list[int], views: list[MemoryView]) -> Placement"));
  m.def("verify_placement", &verify_placement, nb::arg("placement"), nb::arg("catalog"), nb::arg("name"),
        nb::arg("manifest").none(), nb::arg("threads"), nb::arg("progress").none(),
        nb::sig("def verify_placement(placement: Placement, catalog: Catalog, name: str, manifest: Manifest | None, "
                "threads: int, progress: typing.Any) -> Verdict"));
}

}  // namespace loadstone::python
