#include "common.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/plan/picture.h"
#include "loadstone/shard/process_view.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

namespace loadstone::python {

namespace {

// --- specs

PartitionSpec::Entry entry_from(nb::handle object) {
  if (object.is_none()) return {};
  if (is_string(object)) {
    std::string name = text_of(object);
    return name.empty() ? PartitionSpec::Entry{} : PartitionSpec::Entry{std::move(name)};
  }
  if (!nb::isinstance<nb::tuple>(object) && !nb::isinstance<nb::list>(object)) {
    throw usage_error(cat("spec entry ", nb::repr(object).c_str(),
                          " gives no placement: expected None, an axis name or a tuple of axis names"));
  }
  PartitionSpec::Entry out;
  for (const nb::handle name : object) {
    if (nb::isinstance<nb::tuple>(name) || nb::isinstance<nb::list>(name)) {
      throw usage_error(cat("spec entry ", nb::repr(object).c_str(), " has a nested tuple ", nb::repr(name).c_str()));
    }
    if (!is_string(name)) {
      throw usage_error(
          cat("spec entry ", nb::repr(object).c_str(), ": ", nb::repr(name).c_str(), " is not an axis name"));
    }
    out.push_back(text_of(name));
  }
  return out;
}

PartitionSpec spec_from(nb::handle object) {
  if (object.is_none()) throw usage_error("a mesh without a spec: expected one, such as ('x', None) or 'x,-'");
  if (is_string(object)) return parse_spec(text_of(object));
  for (const char* field : {"unreduced", "reduced"}) {
    if (nb::hasattr(object, field) && nb::len(nb::object(object.attr(field))) > 0) {
      throw usage_error(cat("spec ", nb::repr(object).c_str(), " is ", field, ", which gives no placement"));
    }
  }
  if (!nb::hasattr(object, "__iter__")) {
    throw usage_error(cat("spec ", nb::repr(object).c_str(), " is neither a tuple nor a string"));
  }
  std::vector<PartitionSpec::Entry> entries;
  for (const nb::handle entry : object) entries.push_back(entry_from(entry));
  return PartitionSpec(std::move(entries));
}

Uneven uneven_from(std::string_view text) {
  if (text == "error") return Uneven::error;
  if (text == "ceil") return Uneven::ceil;
  throw usage_error(cat("uneven '", text, "' is unknown: expected 'error' or 'ceil'"));
}

nb::tuple spec_tuple(const PartitionSpec& spec) {
  nb::list out;
  for (const PartitionSpec::Entry& entry : spec.entries()) {
    if (entry.empty()) {
      out.append(nb::none());
    } else if (entry.size() == 1) {
      out.append(entry.front());
    } else {
      nb::list names;
      for (const std::string& name : entry) names.append(name);
      out.append(nb::tuple(names));
    }
  }
  return nb::tuple(out);
}

// --- shardings

std::string kind_of(const Sharding& sharding) {
  switch (sharding.kind()) {
    case Sharding::Kind::named: return "named";
    case Sharding::Kind::row_tiles: return "row_tiles";
    case Sharding::Kind::boxes: return "boxes";
  }
  return "";
}

std::string sharding_repr(const Sharding& sharding) {
  if (sharding.kind() == Sharding::Kind::named) {
    return cat("Sharding(", mesh_repr(sharding.mesh()), ", ", to_string(sharding.spec()),
               sharding.uneven() == Uneven::ceil ? ", uneven='ceil')" : ")");
  }
  return cat("Sharding.", kind_of(sharding), "(", sharding.num_devices(), " devices)");
}

nb::list bound_shards(const Sharding& sharding, const Shape& shape, const std::vector<Shard>& shards) {
  nb::list out;
  for (const Shard& shard : shards) out.append(nb::cast(BoundShard{shard, whole_dims(sharding, shape, shard.box)}));
  return out;
}

nb::list shards_of(const Sharding& sharding, nb::handle shape, std::optional<std::int32_t> process) {
  const Shape dims = dims_from(shape, "shape");
  return bound_shards(sharding, dims, process ? sharding.local_shards(dims, *process) : sharding.all_shards(dims));
}

nb::object optional_dims(const std::vector<std::optional<std::int64_t>>& values) {
  nb::list out;
  for (const auto& value : values) out.append(value ? nb::object(nb::int_(*value)) : nb::none());
  return nb::tuple(out);
}

/// What draw() gives: a picture in text and SVG.
struct Drawing {
  std::string text;
  std::string svg;
};

Drawing draw(const Sharding& sharding, nb::handle shape, int width, const std::string& title) {
  const Shape dims = dims_from(shape, "shape");
  SvgOptions options;
  options.title = title;
  return {draw_text(sharding, dims, width), draw_svg(sharding, dims, options)};
}

void bind_shards(nb::module_& m) {
  nb::class_<BoundShard>(m, "Shard", "The box of an array that one device owns.")
      .def_prop_ro(
          "device", [](const BoundShard& s) { return place_name(s.shard.device); }, "The device, such as 'cpu:0'.")
      .def_prop_ro(
          "id", [](const BoundShard& s) { return s.shard.device.id; }, "Id of the device in its mesh.")
      .def_prop_ro(
          "process", [](const BoundShard& s) { return s.shard.device.process; }, "Process that owns the device.")
      .def_prop_ro(
          "position", [](const BoundShard& s) { return s.shard.position; },
          "Position of the device in the mesh, row-major.")
      .def_prop_ro(
          "replica_id", [](const BoundShard& s) { return s.shard.replica_id; },
          "Rank among the holders of this box; 0 is the copy that writes.")
      .def_prop_ro(
          "index", [](const BoundShard& s) { return slices_from(s.shard.box, s.whole); },
          nb::sig("def index(self) -> tuple[slice, ...]"),
          "The box as slices of the array, as in JAX's index maps: slice(None) where a dimension is not split.")
      .def_prop_ro(
          "box", [](const BoundShard& s) { return tuple_from(s.shard.box); },
          nb::sig("def box(self) -> tuple[tuple[int, int], ...]"), "(begin, end) of each dimension, in elements.")
      .def_prop_ro(
          "shape", [](const BoundShard& s) { return tuple_from(s.shard.box.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Shape of the box.")
      .def("__repr__", [](const BoundShard& s) {
        return cat("Shard(", place_name(s.shard.device), ", id=", s.shard.device.id,
                   ", process=", s.shard.device.process, ", index=", to_string(s.shard.box),
                   ", replica_id=", s.shard.replica_id, ")");
      });
}

// The shardings that are no mesh and spec.
void bind_forms(nb::class_<Sharding>& c) {
  c.def_static(
       "single",
       [](const std::string& device) {
         const std::vector<Device> devices = parse_devices(device);
         if (devices.size() != 1) throw usage_error(cat("'", device, "' is not one device"));
         return Sharding::single(devices.front());
       },
       nb::arg("device") = "cpu:0", "The whole array on one device.")
      .def_static(
          "row_tiles",
          [](nb::object devices, std::int64_t over_decompose) {
            return Sharding::row_tiles(is_integer(devices)
                                           ? Mesh::of_cpus({"device"}, dims_from(devices, "devices")).devices()
                                           : devices_from(devices),
                                       over_decompose);
          },
          nb::arg("devices"), nb::arg("over_decompose") = 1,
          nb::sig("def row_tiles(devices: typing.Any, over_decompose: int = 1) -> Sharding"),
          "Axis 0 in equal tiles over a list of devices (or so many cpus); the last tiles may be short or empty.")
      .def_static(
          "_from_boxes",
          [](const std::vector<DeviceRow>& rows, nb::object shape,
             const std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>& boxes) {
            std::vector<Box> list;
            for (const auto& pairs : boxes) {
              Box box;
              for (const auto& [begin, end] : pairs) {
                box.begin.push_back(begin);
                box.end.push_back(end);
              }
              list.push_back(std::move(box));
            }
            return Sharding::from_boxes(devices_from_rows(rows), dims_from(shape, "shape"), std::move(list));
          },
          nb::sig("def _from_boxes(rows: list[tuple[int, int, int, int]], shape: typing.Sequence[int], boxes: "
                  "list[list[tuple[int, int]]]) -> Sharding"))
      .def_static(
          "from_boxes",
          [](nb::object devices, nb::object shape, nb::object boxes) {
            std::vector<Box> list;
            for (const nb::handle entry : boxes) {
              Box box;
              for (const nb::handle pair : entry) {
                const Dims ends = dims_from(pair, "box");
                if (ends.size() != 2) throw usage_error("a box is a list of (begin, end) pairs");
                box.begin.push_back(ends[0]);
                box.end.push_back(ends[1]);
              }
              list.push_back(std::move(box));
            }
            return Sharding::from_boxes(devices_from(devices), dims_from(shape, "shape"), std::move(list));
          },
          nb::arg("devices"), nb::arg("shape"), nb::arg("boxes"),
          nb::sig("def from_boxes(devices: typing.Any, shape: typing.Sequence[int], boxes: "
                  "typing.Sequence[typing.Sequence[tuple[int, int]]]) -> Sharding"),
          "One box of (begin, end) pairs for each device, for arrays of `shape` only. ValueError when boxes leave the "
          "shape or do not\ncover it.");
}

// What a sharding says of arrays of a shape.
void bind_queries(nb::class_<Sharding>& c) {
  c.def_prop_ro("kind", &kind_of, "'named' (mesh and spec), 'row_tiles' or 'boxes'.")
      .def_prop_ro(
          "mesh", [](const Sharding& s) { return s.mesh(); }, "The mesh; 1-D for row_tiles and boxes.")
      .def_prop_ro(
          "spec", [](const Sharding& s) { return spec_tuple(s.spec()); },
          nb::sig("def spec(self) -> tuple[str | tuple[str, ...] | None, ...]"), "The spec as a tuple.")
      .def_prop_ro(
          "uneven", [](const Sharding& s) { return s.uneven() == Uneven::ceil ? "ceil" : "error"; },
          nb::sig("def uneven(self) -> str"), "'error' or 'ceil'.")
      .def_prop_ro("num_devices", &Sharding::num_devices, "Number of devices.")
      .def(
          "check",
          [](const Sharding& s, nb::object shape, const std::string& name) {
            s.check(dims_from(shape, "shape"), name);
          },
          nb::arg("shape"), nb::arg("name") = "array",
          nb::sig("def check(self, shape: int | typing.Sequence[int], name: str = 'array') -> None"),
          "ValueError naming array, dimension, size and axes when an array of this shape cannot be placed.")
      .def("shards", &shards_of, nb::arg("shape"), nb::arg("process") = nb::none(),
           nb::sig("def shards(self, shape: int | typing.Sequence[int], process: int | None = None) -> list[Shard]"),
           "The shard of every device in mesh order, or of one process's devices.")
      .def(
          "shard_shape",
          [](const Sharding& s, nb::object shape) { return tuple_from(s.shard_shape(dims_from(shape, "shape"))); },
          nb::arg("shape"), nb::sig("def shard_shape(self, shape: int | typing.Sequence[int]) -> tuple[int, ...]"),
          "Shape of every shard; of the first with uneven='ceil'.")
      .def(
          "replication_factor",
          [](const Sharding& s, nb::object shape) { return s.replication_factor(dims_from(shape, "shape").size()); },
          nb::arg("shape"), nb::sig("def replication_factor(self, shape: int | typing.Sequence[int]) -> int"),
          "How many devices hold each box.")
      .def(
          "is_fully_replicated",
          [](const Sharding& s, nb::object shape) { return s.is_fully_replicated(dims_from(shape, "shape").size()); },
          nb::arg("shape"), nb::sig("def is_fully_replicated(self, shape: int | typing.Sequence[int]) -> bool"),
          "True if every device holds the whole array.")
      .def("is_fully_addressable", &Sharding::is_fully_addressable, nb::arg("process") = 0,
           "True if all devices belong to this process.")
      .def(
          "same_placement",
          [](const Sharding& a, const Sharding& b, nb::object shape) {
            return a.same_placement(b, dims_from(shape, "shape").size());
          },
          nb::arg("other"), nb::arg("shape"),
          nb::sig("def same_placement(self, other: Sharding, shape: int | typing.Sequence[int]) -> bool"),
          "True if both place arrays of this shape alike: ('x',) and ('x', None) do.");
}

// What processes need to know of each other.
void bind_process_helpers(nb::class_<Sharding>& c) {
  c.def(
       "num_addressable",
       [](const Sharding& s, nb::object shape, std::int32_t process) {
         return tuple_from(num_addressable(s, dims_from(shape, "shape"), process));
       },
       nb::arg("shape"), nb::arg("process") = 0,
       nb::sig("def num_addressable(self, shape: int | typing.Sequence[int], process: int = 0) -> tuple[int, ...]"),
       "Sum of the lengths of the process's distinct intervals on each dimension.")
      .def(
          "process_index_and_count",
          [](const Sharding& s, nb::object shape, int dim, std::int32_t process) -> nb::object {
            const auto found = process_index_and_count(s, dims_from(shape, "shape"), dim, process);
            return found ? nb::object(nb::make_tuple(found->first, found->second)) : nb::none();
          },
          nb::arg("shape"), nb::arg("dim"), nb::arg("process") = 0,
          nb::sig("def process_index_and_count(self, shape: int | typing.Sequence[int], dim: int, process: int = 0) -> "
                  "tuple[int, int] | None"),
          "(i, n): this process holds the i-th of n different parts of a dimension. None for a process without "
          "devices;\n"
          "ValueError when the parts differ in size or overlap.")
      .def(
          "local_to_global_shape",
          [](const Sharding& s, nb::object local, std::int32_t process) {
            return optional_dims(local_to_global_shape(s, dims_from(local, "local shape"), process));
          },
          nb::arg("local_shape"), nb::arg("process") = 0,
          nb::sig("def local_to_global_shape(self, local_shape: int | typing.Sequence[int], process: int = 0) -> "
                  "tuple[int | None, ...]"),
          "The global shape that local data implies; None in each dimension where it cannot be told.")
      .def(
          "load_groups", [](const Sharding& s, nb::object shape) { return load_groups(s, dims_from(shape, "shape")); },
          nb::arg("shape"), nb::sig("def load_groups(self, shape: int | typing.Sequence[int]) -> list[list[int]]"),
          "Groups of processes that need the same data.");
}

}  // namespace

void bind_shard(nb::module_& m) {
  bind_shards(m);

  nb::class_<Drawing>(m, "Drawing", "A picture of which device holds which box: text, and SVG in a notebook.")
      .def_prop_ro(
          "text", [](const Drawing& d) { return d.text; }, "For a terminal.")
      .def_prop_ro(
          "svg", [](const Drawing& d) { return d.svg; }, "A standalone SVG document.")
      .def("__str__", [](const Drawing& d) { return d.text; })
      .def("__repr__", [](const Drawing& d) { return d.text; })
      .def("_repr_svg_", [](const Drawing& d) { return d.svg; });

  nb::class_<Sharding> c(
      m, "Sharding",
      "Which box of an array each device of a mesh holds. Serves arrays of any shape.\n\n"
      "`spec` has an entry for each dimension: None (not split), an axis name, or a tuple of names of which the first "
      "varies\nslowest; missing entries mean not split. A tuple, a jax.sharding.PartitionSpec or text such as "
      "'x,-,y+z'. "
      "A dimension\nthat does not divide over its axes is refused, or with uneven='ceil' cut into tiles of ceil(size / "
      "n) "
      "of which the\nlast may be short or empty.");
  c.def(
      "__init__",
      [](Sharding* self, const Mesh& mesh, nb::object spec, const std::string& uneven) {
        new (self) Sharding(mesh, spec_from(spec), uneven_from(uneven));
      },
      nb::arg("mesh"), nb::arg("spec").none(), nb::arg("uneven") = "error",
      nb::sig("def __init__(self, mesh: Mesh, spec: typing.Any, uneven: str = 'error') -> None"));
  bind_forms(c);
  bind_queries(c);
  bind_process_helpers(c);
  c.def("draw", &draw, nb::arg("shape"), nb::arg("width") = 100, nb::arg("title") = "",
        nb::sig("def draw(self, shape: int | typing.Sequence[int], width: int = 100, title: str = '') -> Drawing"),
        "A picture for an array of this shape: text on a terminal (at most `width` columns), SVG in a notebook.")
      .def(
          "__eq__",
          [](const Sharding& a, nb::handle b) -> nb::object {
            if (!nb::isinstance<Sharding>(b)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(a == *nb::inst_ptr<Sharding>(b));
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Sharding& s) { return nb::hash(nb::cast(sharding_repr(s))); })
      .def("__repr__", &sharding_repr)
      .def(
          "_repr_html_", [](nb::object self) { return helper("_html", "sharding")(self); },
          nb::sig("def _repr_html_(self) -> str"));
}

}  // namespace loadstone::python
