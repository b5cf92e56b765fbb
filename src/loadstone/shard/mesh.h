#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/array/place.h"

namespace loadstone {

/// One device of a mesh. The id is the user's (any integers, any order); the place says which memory is meant.
struct Device {
  std::int64_t id = 0;
  std::int32_t process = 0;
  Place place;             ///< local memory; only meaningful on the process that owns the device
  std::int32_t part = -1;  ///< `cuda:0.3` is part 3 of one GPU; -1 for a whole device

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu:3", "cuda:0.3": the place as the user writes it.
std::string place_name(const Device& device);
/// "device 3 (cpu:3, process 0)": for messages.
std::string to_string(const Device& device);

/// Reads `--devices`: "0,1", "cpu:0,cpu:1", "cuda:0.0,cuda:0.1", "cuda:GPU-<uuid>" (its first digits will do). Bare
/// integers are cpu. Ids are the numbers; mixed lists count up. Error{usage} naming the entry; Error{system} for UUIDs.
std::vector<Device> parse_devices(std::string_view text);

/// An n-dimensional array of devices, one name per axis. Device order is the row-major order of the array: it decides
/// every index map, replica id and per-device list; ids never do. Equal = same devices in order, shape and names.
/// Immutable; copies share the list of devices.
/// Source: requirements R1 of sharding; jax.sharding.Mesh.
class Mesh {
 public:
  /// devices in row-major order. Error{usage}: counts of names and axes differ, product differs from the number of
  /// devices (both numbers named), an empty or repeated name, a repeated device id, an axis of size < 1.
  Mesh(std::vector<std::string> axis_names, Dims axis_sizes, std::vector<Device> devices);
  /// Devices cpu:0 … cpu:N-1 on process 0, ids 0 … N-1.
  static Mesh of_cpus(std::vector<std::string> axis_names, Dims axis_sizes);
  /// ids in row-major order, device k on process k / devices_per_process: the notation of the golden examples. The
  /// place of a device is cpu:<position>.
  static Mesh simulated(std::vector<std::string> axis_names, Dims axis_sizes, std::vector<std::int64_t> ids,
                        std::int64_t devices_per_process);

  int ndim() const { return sizes_.size(); }
  const std::vector<std::string>& axis_names() const { return names_; }
  const Dims& axis_sizes() const { return sizes_; }
  const std::vector<Device>& devices() const { return *devices_; }
  std::int64_t num_devices() const { return static_cast<std::int64_t>(devices_->size()); }
  /// Axis number of a name, or -1.
  int axis(std::string_view name) const;
  /// Mesh coordinates of the device at row-major position `pos`.
  Dims coordinates(std::int64_t pos) const;
  /// Row-major positions of the devices of a process, ascending (mesh order).
  std::vector<std::int64_t> positions_of(std::int32_t process) const;
  /// Largest process index + 1.
  std::int32_t process_count() const;
  /// Row-major position of a device id, or -1.
  std::int64_t position_of_id(std::int64_t id) const;

  friend bool operator==(const Mesh& a, const Mesh& b) {
    return a.names_ == b.names_ && a.sizes_ == b.sizes_ && (a.devices_ == b.devices_ || *a.devices_ == *b.devices_);
  }

 private:
  std::vector<std::string> names_;
  Dims sizes_;
  std::shared_ptr<const std::vector<Device>> devices_;
};

/// Reads "x=2,y=4" into names and sizes. Error{usage} naming the entry.
std::pair<std::vector<std::string>, Dims> parse_mesh(std::string_view text);
/// "x=2,y=4"
std::string to_string(const Mesh& mesh);

}  // namespace loadstone
