#include "common.h"

#include <chrono>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone::python {

nb::object helper(const char* module, const char* name) {
  return nb::module_::import_(cat("loadstone.", module).c_str()).attr(name);
}

nb::object numpy_dtype(DType dtype) {
  return helper("_dtypes", "to_numpy")(to_string(dtype).c_str());
}

bool is_integer(nb::handle object) {
  // Arrays have __index__, too, and raise in it.
  return PyIndex_Check(object.ptr()) != 0 && PyBool_Check(object.ptr()) == 0 && !nb::hasattr(object, "__len__");
}

namespace {

std::int64_t integer_from(nb::handle object, std::string_view what) {
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) throw usage_error(cat(what, " ", nb::repr(object).c_str(), " does not fit in 64 bits"));
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

}  // namespace

Dims dims_from(nb::handle object, std::string_view what) {
  const auto refuse = [&] {
    return usage_error(cat(what, " ", nb::repr(object).c_str(), " is not a list of integers"));
  };
  Dims out;
  if (is_integer(object)) {
    out.push_back(integer_from(object, what));
  } else {
    if (is_string(object) || !nb::hasattr(object, "__iter__")) throw refuse();
    for (const nb::handle item : object) {
      if (!is_integer(item)) throw refuse();
      out.push_back(integer_from(item, what));
    }
  }
  for (const std::int64_t value : out) {
    if (value < 0) throw usage_error(cat(what, " ", to_string(out), " has a negative entry"));
  }
  return out;
}

nb::tuple tuple_from(const Dims& dims) {
  nb::list out;
  for (const std::int64_t value : dims) out.append(value);
  return nb::tuple(out);
}

nb::tuple tuple_from(const Box& box) {
  nb::list out;
  for (int d = 0; d < box.ndim(); ++d) out.append(nb::make_tuple(box.begin[d], box.end[d]));
  return nb::tuple(out);
}

nb::str path_str(std::string_view bytes) {
  PyObject* text = PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

std::vector<std::string> bytes_of(const std::vector<nb::str>& texts) {
  std::vector<std::string> out;
  for (const nb::str& text : texts) out.push_back(bytes_of(text));
  return out;
}

nb::list path_strs(const std::vector<std::string>& texts) {
  nb::list out;
  for (const std::string& text : texts) out.append(path_str(text));
  return out;
}

std::string raw_bytes(nb::handle bytes) {
  const nb::bytes data(nb::cast<nb::bytes>(bytes));
  return {data.c_str(), data.size()};
}

std::string bytes_of(nb::str text) {
  const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!encoded.is_valid()) throw nb::python_error();
  const nb::bytes bytes(encoded);
  return {bytes.c_str(), bytes.size()};
}

nb::tuple slices_from(const Box& box, const std::vector<bool>& whole) {
  nb::list out;
  for (int d = 0; d < box.ndim(); ++d) {
    nb::object begin = nb::none();
    nb::object end = nb::none();
    if (!whole[static_cast<std::size_t>(d)]) {
      begin = nb::int_(box.begin[d]);
      end = nb::int_(box.end[d]);
    }
    out.append(nb::steal(PySlice_New(begin.ptr(), end.ptr(), nullptr)));
  }
  return nb::tuple(out);
}

std::vector<bool> whole_dims(const Sharding& sharding, const Shape& shape, const Box& box) {
  std::vector<bool> out;
  const Dims tiles = sharding.kind() == Sharding::Kind::named ? sharding.tiles_per_dim(shape.size()) : Dims();
  for (int d = 0; d < shape.size(); ++d) {
    switch (sharding.kind()) {
      case Sharding::Kind::named: out.push_back(tiles[d] == 1); break;
      case Sharding::Kind::row_tiles: out.push_back(d > 0 || sharding.num_devices() == 1); break;
      case Sharding::Kind::boxes: out.push_back(box.begin[d] == 0 && box.end[d] == shape[d]); break;
    }
  }
  return out;
}

namespace {
std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
}  // namespace

Session::Session(nb::object progress)
    : callback_(std::move(progress)), last_poll_ns_(now_ns()), cancel_([this] { return poll(); }) {}

void Session::keep_raised() {
  if (!raised_) raised_ = std::current_exception();
}

bool Session::poll() {
  constexpr std::int64_t kIntervalNs = 50'000'000;
  const std::int64_t now = now_ns();
  if (now - last_poll_ns_ < kIntervalNs) return false;
  last_poll_ns_ = now;
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  try {
    nb::raise_python_error();
  } catch (...) {
    keep_raised();
  }
  return true;
}

ProgressFn Session::progress() {
  if (callback_.is_none()) return {};
  return [this](const ProgressUpdate& update) {
    const nb::gil_scoped_acquire gil;
    if (raised_) return;
    try {
      callback_(update);
    } catch (...) {
      keep_raised();
      cancel_.request();
    }
  };
}

}  // namespace loadstone::python
