#include "common.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace loadstone::python {

std::string text_of(nb::handle object) {
  return nb::cast<std::string>(nb::str(object));
}

bool is_string(nb::handle object) {
  return nb::isinstance<nb::str>(object);
}

namespace {

/// Ints and strings, nested in any way (an array of a mesh's shape), in row-major order.
void flatten(nb::handle object, std::vector<std::string>& out) {
  if (is_string(object)) {
    out.push_back(text_of(object));
  } else if (is_integer(object)) {
    out.push_back(text_of(nb::steal(PyNumber_Index(object.ptr()))));
  } else if (nb::hasattr(object, "tolist")) {
    flatten(object.attr("tolist")(), out);
  } else if (nb::isinstance<nb::sequence>(object)) {
    for (const nb::handle item : object) flatten(item, out);
  } else {
    throw usage_error(cat("device ", nb::repr(object).c_str(), " is neither an id nor a name such as 'cpu:0'"));
  }
}

}  // namespace

std::vector<Device> devices_from(nb::handle object) {
  if (is_string(object)) return parse_devices(text_of(object));
  std::vector<std::string> entries;
  flatten(object, entries);
  return entries.empty() ? std::vector<Device>() : parse_devices(join(entries, ","));
}

std::vector<Device> devices_from_rows(const std::vector<DeviceRow>& rows) {
  std::vector<Device> out;
  for (const auto& [id, process, kind, ordinal] : rows) {
    out.push_back(Device{id, process, Place{static_cast<PlaceKind>(kind), ordinal}, -1});
  }
  return out;
}

std::string mesh_repr(const Mesh& mesh) {
  std::string axes;
  for (int a = 0; a < mesh.ndim(); ++a) {
    axes += cat(a > 0 ? ", " : "", "'", mesh.axis_names()[static_cast<std::size_t>(a)], "': ", mesh.axis_sizes()[a]);
  }
  return cat("Mesh({", axes, "}, ", mesh.num_devices(), mesh.num_devices() == 1 ? " device" : " devices", ", ",
             mesh.process_count(), mesh.process_count() == 1 ? " process)" : " processes)");
}

namespace {

/// None: all on process 0. An int: that many devices a process, in mesh order. A list: the process of each device.
void set_processes(std::vector<Device>& devices, nb::handle processes) {
  if (processes.is_none()) return;
  if (is_integer(processes)) {
    const std::int64_t each = dims_from(processes, "processes")[0];
    if (each < 1) throw usage_error(cat("processes=", each, " devices each: expected at least 1"));
    for (std::size_t k = 0; k < devices.size(); ++k) {
      devices[k].process = static_cast<std::int32_t>(static_cast<std::int64_t>(k) / each);
    }
    return;
  }
  const Dims list = dims_from(processes, "processes");
  if (list.size() != static_cast<int>(devices.size())) {
    throw usage_error(cat("processes: expected one for each of the ", devices.size(), " devices, found ", list.size()));
  }
  for (std::size_t k = 0; k < devices.size(); ++k) {
    if (list[static_cast<int>(k)] > INT32_MAX)
      throw usage_error(cat("process ", list[static_cast<int>(k)], " is too large"));
    devices[k].process = static_cast<std::int32_t>(list[static_cast<int>(k)]);
  }
}

std::pair<std::vector<std::string>, Dims> axes_from(nb::handle axes, nb::handle names) {
  if (is_string(axes)) return parse_mesh(text_of(axes));
  std::vector<std::string> axis_names;
  if (nb::hasattr(axes, "items")) {
    if (!names.is_none()) throw usage_error("axis_names is for a shape; a dict names its axes itself");
    nb::list sizes;
    for (const nb::handle pair : axes.attr("items")()) {
      const nb::tuple entry(pair);
      if (!is_string(entry[0])) throw usage_error(cat("axis name ", nb::repr(entry[0]).c_str(), " is not a string"));
      axis_names.push_back(text_of(entry[0]));
      sizes.append(entry[1]);
    }
    return {axis_names, dims_from(sizes, "mesh")};
  }
  if (names.is_none()) throw usage_error("a mesh given as a shape needs axis_names; or write {'x': 2, 'y': 4}");
  if (is_string(names)) {
    axis_names.push_back(text_of(names));
  } else {
    std::int64_t position = 0;
    for (const nb::handle name : names) {
      if (!is_string(name))
        throw usage_error(cat("axis name ", position, " is ", nb::repr(name).c_str(), ", not a string"));
      axis_names.push_back(text_of(name));
      ++position;
    }
  }
  return {axis_names, dims_from(axes, "mesh shape")};
}

Mesh make_mesh(nb::handle axes, nb::handle names, nb::handle devices, nb::handle processes) {
  const auto [axis_names, sizes] = axes_from(axes, names);
  std::vector<Device> list;
  if (devices.is_none()) {
    list = Mesh::of_cpus(axis_names, sizes).devices();
  } else {
    list = devices_from(devices);
  }
  set_processes(list, processes);
  return Mesh(axis_names, sizes, std::move(list));
}

nb::list device_names(const Mesh& mesh) {
  nb::list out;
  for (const Device& device : mesh.devices()) out.append(place_name(device));
  return out;
}

}  // namespace

void bind_mesh(nb::module_& m) {
  nb::class_<Mesh>(m, "Mesh",
                   "An n-dimensional array of devices, one name per axis.\n\n"
                   "Mesh({'x': 2, 'y': 4}), Mesh('x=2,y=4') or Mesh((2, 4), ('x', 'y')). `devices` lists them in "
                   "row-major order: ids\n(host memory cpu:<id>) or names such as 'cpu:0'; without it they are cpu:0 … "
                   "cpu:N-1. `processes` says who owns\nthem: None (process 0), an int (that many a process, in mesh "
                   "order) or one process for each device.\nValueError: counts that do not fit, repeated names or "
                   "devices, an axis below 1.")
      .def(
          "__init__",
          [](Mesh* self, nb::object shape, nb::object axis_names, nb::object devices, nb::object processes) {
            new (self) Mesh(make_mesh(shape, axis_names, devices, processes));
          },
          nb::arg("shape"), nb::arg("axis_names") = nb::none(), nb::kw_only(), nb::arg("devices") = nb::none(),
          nb::arg("processes") = nb::none(),
          nb::sig("def __init__(self, shape: str | typing.Mapping[str, int] | typing.Sequence[int], axis_names: str | "
                  "typing.Sequence[str] | None = None, *, devices: typing.Any = None, processes: int | "
                  "typing.Sequence[int] | None = None) -> None"))
      .def_static(
          "_of_rows",
          [](std::vector<std::string> names, nb::object sizes, const std::vector<DeviceRow>& rows) {
            return Mesh(std::move(names), dims_from(sizes, "mesh shape"), devices_from_rows(rows));
          },
          nb::sig("def _of_rows(names: list[str], sizes: typing.Sequence[int], rows: list[tuple[int, int, int, int]]) "
                  "-> Mesh"))
      .def_prop_ro(
          "axis_names", [](const Mesh& mesh) { return nb::tuple(nb::cast(mesh.axis_names())); },
          nb::sig("def axis_names(self) -> tuple[str, ...]"), "Names, major to minor.")
      .def_prop_ro(
          "shape",
          [](const Mesh& mesh) {
            nb::dict out;
            for (int a = 0; a < mesh.ndim(); ++a) {
              out[nb::str(mesh.axis_names()[static_cast<std::size_t>(a)].c_str())] = mesh.axis_sizes()[a];
            }
            return out;
          },
          nb::sig("def shape(self) -> dict[str, int]"), "Axis name → number of devices along it.")
      .def_prop_ro("size", &Mesh::num_devices, "Number of devices.")
      .def_prop_ro("devices", &device_names, nb::sig("def devices(self) -> list[str]"),
                   "Names in mesh order, such as 'cpu:0'.")
      .def_prop_ro(
          "device_ids",
          [](const Mesh& mesh) {
            std::vector<std::int64_t> out;
            for (const Device& device : mesh.devices()) out.push_back(device.id);
            return out;
          },
          "Ids in mesh order.")
      .def_prop_ro("process_count", &Mesh::process_count, "Largest process index + 1.")
      .def(
          "__eq__",
          [](const Mesh& a, nb::handle b) -> nb::object {
            if (!nb::isinstance<Mesh>(b)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(a == *nb::inst_ptr<Mesh>(b));
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Mesh& mesh) { return nb::hash(nb::cast(mesh_repr(mesh))); })
      .def("__repr__", &mesh_repr);
}

}  // namespace loadstone::python
