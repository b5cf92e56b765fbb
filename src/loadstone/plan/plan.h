#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"
#include "loadstone/format/catalog.h"
#include "loadstone/plan/coalesce.h"
#include "loadstone/shard/sharding.h"

namespace loadstone {

/// Who reads which piece (sharding section 7).
enum class Strategy : std::uint8_t {
  automatic,    ///< least bytes read, then least peak memory, ties to per_process
  global,       ///< every process reads everything and keeps its boxes
  per_device,   ///< one pipeline per device, exactly its box
  per_process,  ///< the union of the process's boxes once
  exchange      ///< 1/P each, then across processes: needs an engine; Error{usage} until one is given
};
std::string_view to_string(Strategy strategy);
/// Error{usage} listing the known ones.
Strategy parse_strategy(std::string_view text);

/// One array of the catalog and where its parts go.
struct ArrayRequest {
  std::int64_t array = 0;  ///< index into Catalog::arrays
  Sharding sharding;
};

struct PlanOptions {
  Strategy strategy = Strategy::automatic;
  std::int32_t process = 0;
  std::int64_t over_decompose = 1;            ///< windows a device's box is cut into at least (loading P11)
  std::optional<std::int64_t> memory_budget;  ///< bytes; Error{system} before any I/O when the plan needs more
  std::int64_t window_bytes = 4 << 20;        ///< size of one unit of work; a staging slot has this size
  int threads = 1;                            ///< workers: one staging slot each
  CostModel cost;
};

/// One buffer to be filled: an array's shard on a local device. Empty shards have slots, too.
struct Slot {
  std::int32_t array = 0;  ///< index into Plan::arrays
  Shard shard;
  std::int64_t nbytes = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// Where bytes of a Read go: `box` (array indices) of it into the slot.
struct Target {
  std::int32_t slot = 0;
  Box box;
  friend bool operator==(const Target&, const Target&) = default;
};

/// Read a box of an array, which may span many pieces, and put it into its targets. An O(1) descriptor: the pieces and
/// runs follow from the array's tiling (for_each_piece_read), one at a time, never as a list.
struct Read {
  std::int32_t array = 0;
  Box box;
  std::vector<Target> targets;  ///< in slot order; boxes inside `box`; several may hold the same box (replicas)
  friend bool operator==(const Read&, const Read&) = default;
};

/// Copy a box from one slot's buffer to another's, within the process or (later) across. Loading plans of one process
/// have none: replicas are targets of the same Read. Resharding plans have nothing else.
struct Copy {
  std::int32_t from_slot = 0;
  std::int32_t to_slot = 0;
  Box box;  ///< array indices, inside both shards
  friend bool operator==(const Copy&, const Copy&) = default;
};

struct PlanTotals {
  std::int64_t bytes_needed = 0;     ///< union of the local boxes
  std::int64_t bytes_placed = 0;     ///< sum over slots, replicas counted
  std::int64_t bytes_read = 0;       ///< from files, over-read and duplicates included
  std::int64_t over_read_bytes = 0;  ///< gaps read on purpose, rest of encoded pieces, unneeded part of `global`
  std::int64_t duplicate_bytes = 0;  ///< needed bytes read more than once by this process
  std::int64_t exchanged_bytes = 0;
  std::int64_t copied_bytes = 0;   ///< moved between buffers of this process after or while reading
  std::int64_t pieces = 0;         ///< pieces touched (a piece read by two Reads counts twice)
  std::int64_t requests = 0;       ///< positional reads
  std::int64_t absent_pieces = 0;  ///< filled with the fill value
  std::int64_t staging_bytes = 0;
  std::int64_t peak_host_bytes = 0;    ///< host destinations + staging + decode buffers
  std::int64_t peak_device_bytes = 0;  ///< largest sum of slots on one device that is not host memory
  double predicted_seconds = 0;
  friend bool operator==(const PlanTotals&, const PlanTotals&) = default;
};

/// A strategy that was considered, for --explain.
struct Considered {
  Strategy strategy = Strategy::per_process;
  bool chosen = false;
  PlanTotals totals;
  std::string reason;  ///< why chosen or rejected, with the numbers that decided
  friend bool operator==(const Considered&, const Considered&) = default;
};

/// What the plan knows of an array: enough to print and to verify without the catalog.
struct PlannedArray {
  std::int64_t catalog_index = 0;
  std::string name;
  DType dtype;
  Shape shape;
  Sharding sharding;
  bool uniform_fast_path = false;  ///< loading P7: every tile is one whole file
  std::string path_reason;         ///< why it was taken or not (P8)
};

/// Which bytes go where, for one process, before any byte moves. A plain value: printable, comparable, the same
/// wherever it is made. Memory O(local devices + arrays), whatever the number of files, chunks or devices in the mesh.
struct Plan {
  Strategy strategy = Strategy::per_process;
  std::int32_t process = 0;
  PlanOptions options;
  std::vector<PlannedArray> arrays;
  std::vector<Slot> slots;  ///< array by array, devices in mesh order
  std::vector<Read> reads;
  std::vector<Copy> copies;
  PlanTotals totals;
  std::vector<Considered> considered;
  std::vector<std::string> notes;  ///< idle devices, uneven tiles, over-read declared
};

/// Pure: no file is touched. Error{usage} from Sharding::check, Error{system} beyond the memory budget (both numbers
/// named), Error{usage} when a box cuts a packed type inside a byte.
Plan make_plan(const Catalog& catalog, const std::vector<ArrayRequest>& requests, const PlanOptions& options);

/// One piece's share of a Read.
struct PieceRead {
  Piece piece;
  Box box;  ///< piece.box ∩ read.box, array indices, not empty
};
/// Calls fn for each piece that `read` touches, in file order; stops when fn returns false.
void for_each_piece_read(const Catalog& catalog, const Plan& plan, const Read& read,
                         const std::function<bool(const PieceRead&)>& fn);

/// Hex fingerprint of everything that must agree between processes: shapes, dtypes, meshes, canonical specs, uneven
/// mode, strategy, and of files the sizes and row tables.
std::string fingerprint(const Catalog& catalog, const Plan& plan);

/// The table of `loadstone plan`: totals, shards per device, steps (first 20), notes.
std::string to_string(const Plan& plan);
/// What --explain adds: each strategy considered with its numbers and reason, and how each Read is coalesced.
std::string explain(const Catalog& catalog, const Plan& plan);

}  // namespace loadstone
