#include "loadstone/shard/mesh.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

constexpr std::int64_t kMaxCpuDevices = 1'048'576;
constexpr std::int64_t kMaxProcess = std::numeric_limits<std::int32_t>::max() - 1;

std::string describe(const std::vector<std::string>& names, const Dims& sizes) {
  std::vector<std::string> parts;
  for (int a = 0; a < sizes.size(); ++a) {
    parts.push_back(cat(printable(names[static_cast<std::size_t>(a)]), "=", sizes[a]));
  }
  return join(parts, ",");
}

// Returns the number of devices that the axes ask for.
std::int64_t check_axes(const std::vector<std::string>& names, const Dims& sizes) {
  const auto num_names = static_cast<std::int64_t>(names.size());
  if (num_names != sizes.size()) {
    throw usage_error(cat("the device array of a mesh has ", sizes.size(), " dimensions ", to_string(sizes), " but ",
                          num_names, " axis names are given (", printable(join(names, ", ")), ")"),
                      {{}, cat(sizes.size(), " axis names"), cat(num_names, " axis names"), 0});
  }
  std::int64_t product = 1;
  for (int a = 0; a < sizes.size(); ++a) {
    const auto at = names.begin() + a;
    if (at->empty()) {
      throw usage_error(cat("mesh axis at position ", a, " has no name: every axis of a mesh needs one"));
    }
    if (const auto first = std::find(names.begin(), at, *at); first != at) {
      throw usage_error(cat("mesh axis '", printable(*at), "' occurs twice, at positions ", first - names.begin(),
                            " and ", a, ": the names of axes must differ"));
    }
    if (sizes[a] < 1) {
      throw usage_error(cat("mesh axis '", printable(*at), "' has size ", sizes[a], ": expected a size >= 1"),
                        {{}, "a size >= 1", cat(sizes[a]), 0});
    }
    const auto next = checked_mul(product, sizes[a]);
    if (!next) throw usage_error(cat("mesh ", describe(names, sizes), " needs more than 2^63-1 devices"));
    product = *next;
  }
  return product;
}

void check_devices(const std::vector<Device>& devices) {
  for (const Device& device : devices) {
    if (device.process < 0 || device.process > kMaxProcess) {
      throw usage_error(cat(to_string(device), ": expected a process number from 0 to ", kMaxProcess));
    }
  }
  const auto ascends = [](const Device& a, const Device& b) { return a.id >= b.id; };
  if (std::adjacent_find(devices.begin(), devices.end(), ascends) == devices.end()) return;

  std::vector<std::size_t> by_id(devices.size());
  std::iota(by_id.begin(), by_id.end(), std::size_t{0});
  std::sort(by_id.begin(), by_id.end(), [&](std::size_t a, std::size_t b) {
    return devices[a].id != devices[b].id ? devices[a].id < devices[b].id : a < b;
  });
  std::vector<std::string> faults;
  for (std::size_t i = 1; i < by_id.size(); ++i) {
    const std::size_t first = by_id[i - 1];
    const std::size_t again = by_id[i];
    if (devices[first].id != devices[again].id) continue;
    faults.push_back(cat(to_string(devices[again]), " at positions ", first, " and ", again));
  }
  if (!faults.empty()) throw usage_error(cat("a device occurs twice in the mesh: ", join_first(faults, 5)));
}

std::vector<Device> cpu_devices(std::int64_t count) {
  std::vector<Device> devices(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) {
    Device& device = devices[static_cast<std::size_t>(k)];
    device.id = k;
    device.place.ordinal = static_cast<std::int32_t>(k);
  }
  return devices;
}

}  // namespace

std::string place_name(const Device& device) {
  return device.part < 0 ? to_string(device.place) : cat(to_string(device.place), ".", device.part);
}

std::string to_string(const Device& device) {
  return cat("device ", device.id, " (", place_name(device), ", process ", device.process, ")");
}

Mesh::Mesh(std::vector<std::string> axis_names, Dims axis_sizes, std::vector<Device> devices)
    : names_(std::move(axis_names)),
      sizes_(std::move(axis_sizes)),
      devices_(std::make_shared<const std::vector<Device>>(std::move(devices))) {
  const std::int64_t needed = check_axes(names_, sizes_);
  if (needed != num_devices()) {
    throw usage_error(cat("mesh ", describe(names_, sizes_), " needs ", needed, needed == 1 ? " device" : " devices",
                          ", but ", num_devices(), num_devices() == 1 ? " is given" : " are given"),
                      {{}, cat(needed, " devices"), cat(num_devices(), " devices"), 0});
  }
  check_devices(*devices_);
}

Mesh Mesh::of_cpus(std::vector<std::string> axis_names, Dims axis_sizes) {
  const std::int64_t count = check_axes(axis_names, axis_sizes);
  if (count > kMaxCpuDevices) {
    throw usage_error(cat("mesh ", describe(axis_names, axis_sizes), " needs ", count, " devices, more than the ",
                          kMaxCpuDevices, " that can be made up"),
                      {{}, cat("at most ", kMaxCpuDevices, " devices"), cat(count, " devices"), 0});
  }
  return Mesh(std::move(axis_names), std::move(axis_sizes), cpu_devices(count));
}

Mesh Mesh::simulated(std::vector<std::string> axis_names, Dims axis_sizes, std::vector<std::int64_t> ids,
                     std::int64_t devices_per_process) {
  if (devices_per_process < 1) {
    throw usage_error(cat("a simulated mesh needs at least 1 device a process, found ", devices_per_process));
  }
  if (static_cast<std::int64_t>(ids.size()) > kMaxCpuDevices) {
    throw usage_error(cat("a simulated mesh has at most ", kMaxCpuDevices, " devices, found ", ids.size()));
  }
  std::vector<Device> devices = cpu_devices(static_cast<std::int64_t>(ids.size()));
  for (std::size_t pos = 0; pos < ids.size(); ++pos) {
    const std::int64_t process = ids[pos] / devices_per_process;
    if (ids[pos] < 0 || process > kMaxProcess) {
      throw usage_error(cat("device id ", ids[pos], " has no process: expected an id >= 0 with id / ",
                            devices_per_process, " <= ", kMaxProcess));
    }
    devices[pos].id = ids[pos];
    devices[pos].process = static_cast<std::int32_t>(process);
  }
  return Mesh(std::move(axis_names), std::move(axis_sizes), std::move(devices));
}

int Mesh::axis(std::string_view name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  return at == names_.end() ? -1 : static_cast<int>(at - names_.begin());
}

Dims Mesh::coordinates(std::int64_t pos) const {
  if (pos < 0 || pos >= num_devices()) {
    throw usage_error(cat("mesh position ", pos, " is outside a mesh of ", num_devices(), " devices"));
  }
  Dims out = Dims::filled(ndim(), 0);
  for (int a = ndim() - 1; a >= 0; --a) {
    out[a] = pos % sizes_[a];
    pos /= sizes_[a];
  }
  return out;
}

std::vector<std::int64_t> Mesh::positions_of(std::int32_t process) const {
  std::vector<std::int64_t> out;
  for (std::int64_t pos = 0; pos < num_devices(); ++pos) {
    if ((*devices_)[static_cast<std::size_t>(pos)].process == process) out.push_back(pos);
  }
  return out;
}

std::int32_t Mesh::process_count() const {
  std::int32_t last = -1;
  for (const Device& device : *devices_) last = std::max(last, device.process);
  return last + 1;
}

std::int64_t Mesh::position_of_id(std::int64_t id) const {
  const auto at =
      std::find_if(devices_->begin(), devices_->end(), [&](const Device& device) { return device.id == id; });
  return at == devices_->end() ? -1 : at - devices_->begin();
}

std::string to_string(const Mesh& mesh) {
  return describe(mesh.axis_names(), mesh.axis_sizes());
}

}  // namespace loadstone
