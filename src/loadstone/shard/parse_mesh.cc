#include <algorithm>
#include <limits>
#include <set>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/shard/mesh.h"
#include "loadstone/shard/trim.h"

namespace loadstone {

using detail::trim;

namespace {

// Digits only: no sign, no spaces, at most 2^31-1.
bool parse_ordinal(std::string_view text, std::int32_t& out) {
  std::int64_t value = 0;
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || !parse_int(text, value) || value > std::numeric_limits<std::int32_t>::max()) return false;
  out = static_cast<std::int32_t>(value);
  return true;
}

[[noreturn]] void bad_device(std::string_view entry, std::string_view why) {
  throw usage_error(
      cat("device '", printable(entry), "' ", why, ": expected 3, cpu:3, cuda:0, cuda:0.3 or cuda:GPU-<uuid>"));
}

/// The GPU with a UUID as nvidia-smi prints it, or the only one whose UUID begins so.
std::int32_t ordinal_of_uuid(std::string_view entry, std::string_view uuid) {
  const auto fail = [&](std::string_view why) {
    throw Error(ErrorKind::system, cat("device '", printable(entry), "' ", why));
  };
  // What stands before the digits is the caller's: the driver gives the digits alone, of a GPU or of its MIG slice.
  std::string digits(uuid.substr(4));
  if (digits.empty()) bad_device(entry, cat("has nothing after ", uuid));
  if (const std::string problem = cuda::driver_problem(); !problem.empty()) fail(cat("cannot be found: ", problem));
  for (char& c : digits) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  std::vector<std::string> known;
  std::vector<std::int32_t> found;
  for (std::int32_t i = 0; i < cuda::device_count(); ++i) {
    const std::string& theirs = cuda::device_info(i).uuid;
    known.push_back(cat("cuda:", i, " is ", theirs));
    if (theirs.compare(4, digits.size(), digits) == 0) found.push_back(i);
  }
  if (found.empty()) fail(cat("is not on this machine: ", join_first(known, 8)));
  if (found.size() > 1) fail(cat("may be any of several: ", join_first(known, 8)));
  return found[0];
}

Device parse_device(std::string_view entry) {
  Device device;
  if (entry.empty()) bad_device(entry, "is empty");
  const std::size_t colon = entry.find(':');
  if (colon == std::string_view::npos) {
    if (!parse_ordinal(entry, device.place.ordinal)) bad_device(entry, "is not a device");
    return device;
  }
  const std::string_view kind = entry.substr(0, colon);
  std::string_view number = entry.substr(colon + 1);
  if (kind == "cuda") {
    device.place.kind = PlaceKind::cuda;
    if (const std::size_t dot = number.find('.'); dot != std::string_view::npos) {
      if (!parse_ordinal(number.substr(dot + 1), device.part)) bad_device(entry, "has no number after the point");
      number = number.substr(0, dot);
    }
    if (number.starts_with("GPU-") || number.starts_with("MIG-")) {
      device.place.ordinal = ordinal_of_uuid(entry, number);
      return device;
    }
  } else if (kind != "cpu") {
    const std::string near = nearest(kind, {"cpu", "cuda"});
    bad_device(entry, cat("is of unknown kind '", printable(kind), "' (known: cpu, cuda",
                          near.empty() ? "" : cat("; nearest: ", near), ")"));
  }
  if (!parse_ordinal(number, device.place.ordinal)) bad_device(entry, "has no device number from 0 to 2^31-1");
  return device;
}

}  // namespace

std::vector<Device> parse_devices(std::string_view text) {
  std::vector<Device> devices;
  std::set<std::string> seen;
  std::vector<std::string> repeated;
  for (const std::string& part : split(text, ',')) {
    devices.push_back(parse_device(trim(part)));
    const std::string name = place_name(devices.back());
    if (!seen.insert(name).second) repeated.push_back(cat("'", name, "'"));
  }
  if (!repeated.empty()) {
    throw usage_error(cat("devices '", printable(text), "' name a device twice: ", join_first(repeated, 5)));
  }
  const bool ordinals = std::all_of(devices.begin(), devices.end(), [&](const Device& device) {
    return device.part < 0 && device.place.kind == devices.front().place.kind;
  });
  for (std::size_t k = 0; k < devices.size(); ++k) {
    devices[k].id = ordinals ? devices[k].place.ordinal : static_cast<std::int64_t>(k);
  }
  return devices;
}

std::pair<std::vector<std::string>, Dims> parse_mesh(std::string_view text) {
  std::vector<std::string> names;
  Dims sizes;
  std::int64_t product = 1;
  const auto fail = [&](std::string_view entry, std::string_view why) {
    throw usage_error(cat("mesh '", printable(text), "': entry '", printable(entry), "' ", why,
                          ": expected an axis name and a size >= 1, as in x=2,y=4"));
  };
  for (const std::string& part : split(text, ',')) {
    const std::string_view entry = trim(part);
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) fail(entry, "has no '='");
    const std::string_view name = trim(entry.substr(0, equals));
    if (name.empty()) fail(entry, "has no axis name");
    if (name == "-" || name == "None" || name.find_first_of("+()'\" \t") != std::string_view::npos) {
      fail(entry, "has a name that a spec cannot use (-, None, or one with +, a space, quotes or parentheses)");
    }
    std::int64_t size = 0;
    if (!parse_int(trim(entry.substr(equals + 1)), size) || size < 1) fail(entry, "has no size >= 1");
    if (std::find(names.begin(), names.end(), name) != names.end()) fail(entry, "names an axis that occurs twice");
    const auto next = checked_mul(product, size);
    if (!next) fail(entry, "brings the mesh above 2^63-1 devices");
    product = *next;
    names.emplace_back(name);
    sizes.push_back(size);
  }
  return {std::move(names), std::move(sizes)};
}

}  // namespace loadstone
