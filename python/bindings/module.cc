#include "common.h"
#include "loadstone/base/progress.h"
#include "loadstone/verify/pd61.h"

#include <nanobind/stl/string.h>

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using namespace loadstone;          // NOLINT(google-build-using-namespace): a binding file
  using namespace loadstone::python;  // NOLINT(google-build-using-namespace)

  m.doc() = "The C++ half of the package. Import loadstone instead.";
  m.def("version", &loadstone::version, "The library's version, such as '0.1.0'.");
  m.def("pd61_backend", &pd61_backend, "Which digest loop runs here: 'avx2' or 'scalar'.");
  m.def("available_cores", &available_cores, "The cores that affinity and cgroup quota really give this process.");

  nb::class_<ProgressUpdate>(m, "Progress",
                             "How far a stage is. Given to progress callbacks, about ten times a second.")
      .def_ro("stage", &ProgressUpdate::stage, "'discover', 'load', 'verify', 'digest', 'write' or 'convert'.")
      .def_ro("done_bytes", &ProgressUpdate::done_bytes, "Bytes done so far.")
      .def_ro("total_bytes", &ProgressUpdate::total_bytes, "Bytes in all; 0 where that is not known.")
      .def_ro("seconds", &ProgressUpdate::seconds, "Since the stage began.");

  bind_errors(m);
  bind_array(m);
  bind_catalog(m);
  bind_write(m);
  bind_mesh(m);
  bind_shard(m);
  bind_plan(m);
  bind_verify(m);
  bind_load(m);
}
