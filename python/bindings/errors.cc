#include "common.h"
#include "loadstone/base/error.h"

namespace loadstone::python {

namespace {

/// Sets the Python exception for a C++ one; loadstone._errors.make decides the type.
void translate(const Error& error) {
  const ErrorFacts& facts = error.facts();
  const std::string_view kind = kind_name(error.kind());
  const nb::object raised =
      helper("_errors", "make")(nb::str(kind.data(), kind.size()), path_str(error.message()), facts.os_error,
                                path_str(facts.file), path_str(facts.expected), path_str(facts.found));
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Interrupted&) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    } catch (const Error& error) {
      try {
        translate(error);
      } catch (nb::python_error& failed) {
        failed.restore();
      }
    }
  });
}

}  // namespace loadstone::python
