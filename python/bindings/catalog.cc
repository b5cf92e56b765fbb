#include "common.h"
#include "loadstone/base/error.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace loadstone::python {

namespace {

/// One array of a catalog, which it keeps alive.
struct BoundArray {
  std::shared_ptr<Catalog> catalog;
  std::int64_t index = 0;
  const ArrayEntry& entry() const { return catalog->arrays[static_cast<std::size_t>(index)]; }
};

/// The only array. Error{usage} listing the names when there are several.
const ArrayEntry& only(const Catalog& catalog) {
  return catalog.array();
}

nb::list arrays_of(const std::shared_ptr<Catalog>& catalog) {
  nb::list out;
  for (std::size_t i = 0; i < catalog->arrays.size(); ++i) {
    out.append(nb::cast(BoundArray{catalog, static_cast<std::int64_t>(i)}));
  }
  return out;
}

nb::list files_of(const Catalog& catalog) {
  nb::list out;
  for (std::int64_t i = 0; i < catalog.files.size(); ++i) out.append(path_str(catalog.files.path(i)));
  return out;
}

DiscoverOptions discover_options(nb::kwargs given) {
  DiscoverOptions options;
  const auto has = [&](const char* key) { return given.contains(key) && !nb::object(given[key]).is_none(); };
  if (has("dtype")) options.hints.dtype = parse_dtype(nb::cast<std::string>(given["dtype"]));
  if (has("row_shape")) options.hints.row_shape = dims_from(given["row_shape"], "row_shape");
  if (has("shape")) options.hints.shape = dims_from(given["shape"], "shape");
  if (has("offset")) options.hints.offset_bytes = nb::cast<std::int64_t>(given["offset"]);
  if (has("order")) {
    const auto order = nb::cast<std::string>(given["order"]);
    if (order != "C" && order != "F") throw usage_error("order is 'C' or 'F', found '" + order + "'");
    options.hints.order = order == "C" ? ElementOrder::c : ElementOrder::f;
  }
  if (has("arrays")) options.hints.arrays = bytes_of(nb::cast<std::vector<nb::str>>(given["arrays"]));
  if (has("columns")) options.hints.columns = bytes_of(nb::cast<std::vector<nb::str>>(given["columns"]));
  if (has("fill")) options.hints.fill = nb::cast<std::string>(given["fill"]);
  if (has("strict")) options.hints.strict = nb::cast<bool>(given["strict"]);
  if (has("format")) options.format = nb::cast<std::string>(given["format"]);
  if (has("raw")) options.raw = nb::cast<bool>(given["raw"]);
  if (has("files_from")) options.files_from = raw_bytes(given["files_from"]);
  if (has("allow_gaps")) options.allow_gaps = nb::cast<bool>(given["allow_gaps"]);
  if (has("keep_order")) options.keep_order = nb::cast<bool>(given["keep_order"]);
  if (has("expect_files")) options.expect_files = nb::cast<std::int64_t>(given["expect_files"]);
  if (has("expect_rows")) options.expect_rows = nb::cast<std::int64_t>(given["expect_rows"]);
  if (has("mixed_formats")) options.mixed_formats = nb::cast<bool>(given["mixed_formats"]);
  if (has("name")) options.name = bytes_of(nb::cast<nb::str>(given["name"]));
  return options;
}

std::shared_ptr<Catalog> open_paths(const std::vector<nb::bytes>& paths, int threads, nb::object progress,
                                    nb::kwargs given) {
  DiscoverOptions options = discover_options(std::move(given));
  std::vector<std::string> names;
  for (const nb::bytes& path : paths) names.push_back(raw_bytes(path));
  Session session(std::move(progress));
  options.cancel = session.cancel();
  options.progress = session.progress();
  return session.run([&] { return std::make_shared<Catalog>(open(names, options, threads)); });
}

}  // namespace

void bind_catalog(nb::module_& m) {
  nb::class_<BoundArray>(m, "ArrayInfo", "One named array of a catalog.")
      .def_prop_ro(
          "name", [](const BoundArray& a) { return path_str(a.entry().name); }, nb::sig("def name(self) -> str"),
          "For messages and `array=`.")
      .def_prop_ro(
          "format", [](const BoundArray& a) { return a.entry().format; }, "'npy', 'hdf5', …")
      .def_prop_ro(
          "shape", [](const BoundArray& a) { return tuple_from(a.entry().shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Extent of each dimension, in elements.")
      .def_prop_ro(
          "dtype", [](const BoundArray& a) { return numpy_dtype(a.entry().dtype); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"), "Type of an element in memory.")
      .def_prop_ro(
          "nbytes", [](const BoundArray& a) { return a.entry().nbytes(); }, "Bytes of the whole array in memory.")
      .def_prop_ro(
          "rows",
          [](const BoundArray& a) {
            std::vector<std::int64_t> rows;
            const Tiling& tiling = a.entry().tiling;
            if (!tiling.scalar()) {
              for (std::int64_t part = 0; part < tiling.num_parts(); ++part) rows.push_back(tiling.rows_of(part));
            }
            return rows;
          },
          "Rows that each file adds along axis 0; empty for a 0-d array.")
      .def("__repr__", [](const BoundArray& a) {
        return "ArrayInfo(" + nb::cast<std::string>(nb::repr(path_str(a.entry().name))) +
               ", shape=" + to_string(a.entry().shape) + ", dtype=" + to_string(a.entry().dtype) + ")";
      });

  nb::class_<Catalog>(m, "Catalog",
                      "The named arrays found in the paths. A plain value: printable, comparable; no payload byte has "
                      "been read.")
      .def_prop_ro("arrays", &arrays_of, nb::sig("def arrays(self) -> list[ArrayInfo]"),
                   "The arrays, in catalog order.")
      .def_prop_ro(
          "names",
          [](const Catalog& c) {
            nb::list out;
            for (const ArrayEntry& array : c.arrays) out.append(path_str(array.name));
            return out;
          },
          nb::sig("def names(self) -> list[str]"), "Names of the arrays.")
      .def_prop_ro("files", &files_of, nb::sig("def files(self) -> list[str]"),
                   "Paths in the order in which they stack; bytes that are not UTF-8 are surrogate escapes "
                   "(os.fsencode gives them back).")
      .def_prop_ro(
          "rows",
          [](const Catalog& c) {
            const Tiling& tiling = only(c).tiling;
            std::vector<std::int64_t> rows;
            for (std::int64_t part = 0; !tiling.scalar() && part < tiling.num_parts(); ++part) {
              rows.push_back(tiling.rows_of(part));
            }
            return rows;
          },
          "Rows that each file adds along axis 0. ValueError when there are several arrays.")
      .def_prop_ro(
          "shape", [](const Catalog& c) { return tuple_from(only(c).shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Shape of the only array. ValueError when there are several.")
      .def_prop_ro(
          "dtype", [](const Catalog& c) { return numpy_dtype(only(c).dtype); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"),
          "Type of the only array. ValueError when there are several.")
      .def_prop_ro(
          "nbytes",
          [](const Catalog& c) {
            std::int64_t total = 0;
            for (const ArrayEntry& array : c.arrays) total += array.nbytes();
            return total;
          },
          "Bytes of all arrays in memory.")
      .def_prop_ro(
          "notes", [](const Catalog& c) { return path_strs(c.notes); }, nb::sig("def notes(self) -> list[str]"),
          "What a person should know, such as holes that were accepted.")
      .def_prop_ro(
          "left_out", [](const Catalog& c) { return path_strs(c.left_out); },
          nb::sig("def left_out(self) -> list[str]"), "Files seen and not used, with the reason.")
      .def_prop_ro(
          "completeness_checked", [](const Catalog& c) { return c.completeness_checked; },
          "True if a missing last file would have been noticed (expect_files, expect_rows or -of-N names).")
      .def_prop_ro(
          "counters",
          [](const Catalog& c) {
            nb::dict out;
            out["opens"] = c.counters.opens;
            out["read_calls"] = c.counters.read_calls;
            out["bytes_read"] = c.counters.bytes_read;
            return out;
          },
          nb::sig("def counters(self) -> dict[str, int]"), "What discovery cost: opens, read_calls, bytes_read.")
      .def(
          "index_of",
          [](const Catalog& c, std::optional<nb::str> name) {
            if (name) return c.index_of(bytes_of(*name));
            only(c);
            return std::int64_t{0};
          },
          nb::arg("name") = nb::none(),
          "Position of an array by name, or of the only one. ValueError listing the names otherwise.")
      .def("__len__", [](const Catalog& c) { return c.arrays.size(); })
      .def(
          "__eq__",
          [](const Catalog& a, nb::handle other) -> nb::object {
            if (!nb::isinstance<Catalog>(other)) return nb::borrow(Py_NotImplemented);
            const Catalog& b = *nb::inst_ptr<Catalog>(other);
            return nb::bool_(a.arrays == b.arrays && a.files == b.files);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Catalog& c) { return nb::hash(nb::cast(to_string(c))); })
      .def(
          "__str__", [](const Catalog& c) { return path_str(to_string(c)); }, nb::sig("def __str__(self) -> str"))
      .def(
          "__repr__", [](const Catalog& c) { return path_str(to_string(c)); }, nb::sig("def __repr__(self) -> str"))
      .def(
          "_repr_html_", [](nb::object self) { return helper("_html", "catalog")(self); },
          nb::sig("def _repr_html_(self) -> str"));

  m.def("open_paths", &open_paths, nb::arg("paths"), nb::arg("threads"), nb::arg("progress").none(), nb::arg("options"),
        nb::sig("def open_paths(paths: list[bytes], threads: int, progress: typing.Any, **options: typing.Any) -> "
                "Catalog"));
}

}  // namespace loadstone::python
