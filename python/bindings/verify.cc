#include "common.h"
#include "loadstone/base/text.h"
#include "loadstone/verify/manifest.h"
#include "loadstone/verify/verdict.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace loadstone::python {

namespace {

std::string holds_name(Accusation::Holds holds) {
  switch (holds) {
    case Accusation::Holds::other_box: return "other_box";
    case Accusation::Holds::all_zero: return "all_zero";
    case Accusation::Holds::unknown: return "unknown";
    case Accusation::Holds::other_structure: return "other_structure";
  }
  return "";
}

template <typename T>
nb::object or_none(const std::optional<T>& value) {
  return value ? nb::object(tuple_from(*value)) : nb::none();
}

void bind_verdict(nb::module_& m) {
  nb::class_<Accusation>(m, "Accusation", "One device that holds something else than it should.")
      .def_prop_ro(
          "array", [](const Accusation& a) { return path_str(a.array); }, nb::sig("def array(self) -> str"),
          "Name of the array.")
      .def_prop_ro(
          "level", [](const Accusation& a) { return std::string(to_string(a.level)); }, "Such as 'L2 device'.")
      .def_prop_ro(
          "device", [](const Accusation& a) { return place_name(a.device); }, "Such as 'cpu:0'.")
      .def_prop_ro(
          "id", [](const Accusation& a) { return a.device.id; }, "Id of the device in its mesh.")
      .def_prop_ro(
          "process", [](const Accusation& a) { return a.device.process; }, "Process that owns the device.")
      .def_ro("replica_id", &Accusation::replica_id, "Which copy of the box.")
      .def_prop_ro(
          "expected_box", [](const Accusation& a) { return tuple_from(a.expected_box); },
          nb::sig("def expected_box(self) -> tuple[tuple[int, int], ...]"), "(begin, end) of each dimension.")
      .def_prop_ro(
          "holds", [](const Accusation& a) { return holds_name(a.holds); },
          "'other_box', 'all_zero', 'unknown' or 'other_structure'.")
      .def_prop_ro(
          "found_box", [](const Accusation& a) { return or_none(a.found_box); },
          nb::sig("def found_box(self) -> tuple[tuple[int, int], ...] | None"), "Whose bytes were found.")
      .def_prop_ro(
          "found_owners",
          [](const Accusation& a) {
            std::vector<std::int64_t> ids;
            for (const Device& device : a.found_owners) ids.push_back(device.id);
            return ids;
          },
          "Ids of the devices that should hold found_box.")
      .def_prop_ro(
          "first_index", [](const Accusation& a) { return or_none(a.first_index); },
          nb::sig("def first_index(self) -> tuple[int, ...] | None"), "First differing element, as array indices.")
      .def_ro("byte_offset", &Accusation::byte_offset, "Its offset in the shard's buffer.")
      .def_ro("expected_bits", &Accusation::expected_bits, "Hex of that element, most significant byte first.")
      .def_ro("found_bits", &Accusation::found_bits, "Hex of what is there.")
      .def_prop_ro(
          "counterpart",
          [](const Accusation& a) -> std::optional<std::int64_t> {
            if (!a.counterpart) return std::nullopt;
            return a.counterpart->id;
          },
          "Id of the replica it was compared with.")
      .def_ro("culprit_known", &Accusation::culprit_known, "False for one of a differing pair without a source.")
      .def_prop_ro(
          "detail", [](const Accusation& a) { return path_str(a.detail); }, nb::sig("def detail(self) -> str"),
          "For structure: field, expected, found; for source: rows and file.")
      .def(
          "__str__", [](const Accusation& a) { return path_str(to_string(a)); }, nb::sig("def __str__(self) -> str"))
      .def(
          "__repr__", [](const Accusation& a) { return path_str(to_string(a)); }, nb::sig("def __repr__(self) -> str"));

  nb::class_<LevelResult>(m, "LevelResult", "What one level of a verification did.")
      .def_prop_ro(
          "level", [](const LevelResult& l) { return std::string(to_string(l.level)); }, "Such as 'L2 device'.")
      .def_ro("ran", &LevelResult::ran, "False if it was skipped; `note` says why.")
      .def_ro("ok", &LevelResult::ok, "False if it found something wrong.")
      .def_prop_ro(
          "note", [](const LevelResult& l) { return path_str(l.note); }, nb::sig("def note(self) -> str"),
          "What it covered or why it did not run.")
      .def_ro("bytes", &LevelResult::bytes, "Bytes looked at.");

  nb::class_<Verdict>(m, "Verdict",
                      "Proof or accusation: which device holds what and, if wrong, whose bytes those are.")
      .def_prop_ro("ok", &Verdict::ok, "True if every level that ran passed.")
      .def_ro("levels", &Verdict::levels, "L0 structure, L1 source, L2 device, L3 replicas.")
      .def_ro("accusations", &Verdict::accusations, "All accused devices.")
      .def_prop_ro(
          "hints", [](const Verdict& v) { return path_strs(v.hints); }, nb::sig("def hints(self) -> list[str]"),
          "Likely causes.")
      .def_ro("shards", &Verdict::shards, "Shards looked at.")
      .def_ro("bytes_verified", &Verdict::bytes_verified, "Bytes looked at.")
      .def_ro("seconds", &Verdict::seconds, "Time it took.")
      .def_ro("digest", &Verdict::digest, "PD61 of the array, when one was taken, else ''.")
      .def("__bool__", &Verdict::ok)
      .def(
          "__str__", [](const Verdict& v) { return path_str(to_string(v)); }, nb::sig("def __str__(self) -> str"))
      .def(
          "__repr__", [](const Verdict& v) { return path_str(to_string(v)); }, nb::sig("def __repr__(self) -> str"))
      .def(
          "_repr_html_", [](nb::object self) { return helper("_html", "verdict")(self); },
          nb::sig("def _repr_html_(self) -> str"));
}

}  // namespace

void bind_verify(nb::module_& m) {
  bind_verdict(m);

  nb::class_<ManifestArray>(m, "ManifestArray", "Digests of one array, bound to its shape and dtype.")
      .def_prop_ro(
          "name", [](const ManifestArray& a) { return path_str(a.name); }, nb::sig("def name(self) -> str"),
          "Name of the array.")
      .def_prop_ro(
          "shape", [](const ManifestArray& a) { return tuple_from(a.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Shape of the array.")
      .def_prop_ro(
          "dtype", [](const ManifestArray& a) { return numpy_dtype(a.dtype); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"), "Type of an element.")
      .def_ro("nbytes", &ManifestArray::bytes, "Bytes of the array.")
      .def_prop_ro(
          "digest", [](const ManifestArray& a) { return to_string(a.digest); },
          "PD61 of the whole array, two lanes of 16 hex digits.")
      .def_ro("rows_per_block", &ManifestArray::rows_per_block, "Rows of each block that has a digest of its own.")
      .def("__repr__", [](const ManifestArray& a) {
        return "ManifestArray(" + printable(a.name) + ", " + to_string(a.digest) + ")";
      });

  nb::class_<Manifest>(m, "Manifest",
                       "Digests of the arrays of a data set. Names no file: the same arrays in other files pass.")
      .def_ro("arrays", &Manifest::arrays, "One entry for each array.")
      .def_prop_ro(
          "digest",
          [](const Manifest& x) { return x.arrays.size() == 1 ? to_string(x.arrays.front().digest) : std::string(); },
          "Digest of the only array; '' when there are several.")
      .def(
          "to_json", [](const Manifest& x) { return to_json(x); }, "The text that a manifest file holds.")
      .def_static("_read",
                  [](nb::bytes path) {
                    return read_manifest({path.c_str(), path.size()});
                  })
      .def("_write",
           [](const Manifest& x, nb::bytes path) {
             write_manifest(x, {path.c_str(), path.size()});
           })
      .def(
          "__eq__",
          [](const Manifest& a, nb::handle b) -> nb::object {
            if (!nb::isinstance<Manifest>(b)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(a == *nb::inst_ptr<Manifest>(b));
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Manifest& x) { return nb::hash(nb::cast(to_json(x))); })
      .def("__repr__", [](const Manifest& x) {
        std::string names;
        for (const ManifestArray& array : x.arrays)
          names += (names.empty() ? "" : ", ") + printable(array.name) + ": " + to_string(array.digest);
        return "Manifest(" + names + ")";
      });

  m.def(
      "digest_arrays",
      [](const Catalog& catalog, const std::vector<nb::str>& names, int threads, nb::object progress) {
        const std::vector<std::string> wanted = bytes_of(names);
        Session session(std::move(progress));
        const ProgressFn report = session.progress();
        return session.run([&] { return digest(catalog, wanted, threads, report, session.cancel()); });
      },
      nb::arg("catalog"), nb::arg("names"), nb::arg("threads"), nb::arg("progress").none());
}

}  // namespace loadstone::python
