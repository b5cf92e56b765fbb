#include "loadstone/plan/notes.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/shard/process_view.h"

namespace loadstone::planning {
namespace {

constexpr std::int64_t kMeshLimit = 4096;
constexpr std::int64_t kShardLimit = 1 << 16;
constexpr std::size_t kListed = 8;

std::string count_of(std::int64_t n, std::string_view noun) {
  return cat(format_count(n), " ", noun, n == 1 ? "" : "s");
}

/// Equal rows of all parts, or nullopt.
std::optional<std::int64_t> equal_rows(const Tiling& tiling) {
  const std::vector<std::int64_t>& cum = tiling.row_bounds();
  for (std::size_t f = 1; f + 1 < cum.size(); ++f) {
    if (cum[f + 1] - cum[f] != cum[1] - cum[0]) return std::nullopt;
  }
  return cum[1] - cum[0];
}

/// Tiles along axis 0, their rows, and whether another dimension is split; nullopt when they are not regular.
struct Tiles {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  int split_dim = -1;  ///< a dimension other than 0 that is split
};
std::optional<Tiles> tiles_of(const Sharding& sharding, const Shape& shape) {
  if (sharding.kind() == Sharding::Kind::boxes) return std::nullopt;
  if (sharding.kind() == Sharding::Kind::row_tiles) {
    const RowTiles tiles(shape[0], sharding.num_devices(), sharding.over_decompose());
    return Tiles{tiles.num_tiles, tiles.tile_rows, -1};
  }
  const Dims dims = sharding.tiles_per_dim(shape.size());
  Tiles out{dims[0], sharding.shard_shape(shape)[0], -1};
  for (int d = shape.size() - 1; d > 0; --d) {
    if (dims[d] > 1) out.split_dim = d;
  }
  return out;
}

/// The same note for several arrays is one line.
class NoteList {
 public:
  void add(const std::string& array, const std::string& note) {
    const auto [at, fresh] = index_.try_emplace(note, notes_.size());
    if (fresh) notes_.push_back({note, 0, {}});
    Note& entry = notes_[at->second];
    ++entry.arrays;
    if (entry.names.size() < kNames) entry.names.push_back(cat("'", printable(array), "'"));
  }

  void write(std::size_t num_arrays, std::vector<std::string>& out) const {
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      if (i == kNotes) {
        out.push_back(cat("and ", notes_.size() - i, " more notes on single arrays"));
        break;
      }
      const Note& note = notes_[i];
      const std::size_t more = note.arrays - note.names.size();
      if (num_arrays == 1) {
        out.push_back(note.text);
      } else if (note.arrays == num_arrays) {
        out.push_back(cat("all arrays: ", note.text));
      } else {
        out.push_back(cat(join(note.names, ", "), more > 0 ? cat(" and ", more, " more") : "", ": ", note.text));
      }
    }
  }

 private:
  static constexpr std::size_t kNames = 3;
  static constexpr std::size_t kNotes = 32;
  struct Note {
    std::string text;
    std::size_t arrays = 0;
    std::vector<std::string> names;
  };
  std::vector<Note> notes_;
  std::unordered_map<std::string, std::size_t> index_;
};

void note_idle(const PlannedArray& array, const std::vector<Shard>& shards, bool whole_mesh, NoteList& notes) {
  std::vector<std::string> idle;
  for (const Shard& shard : shards) {
    if (shard.box.empty()) idle.push_back(cat(shard.device.id, " (", place_name(shard.device), ")"));
  }
  if (idle.empty()) return;
  notes.add(array.name,
            cat(count_of(static_cast<std::int64_t>(idle.size()), "idle device"), whole_mesh ? "" : " here",
                idle.size() == 1 ? " holds an empty box: " : " hold empty boxes: ", join_first(idle, kListed)));
}

void note_uneven(const PlannedArray& array, NoteList& notes) {
  const Sharding& sharding = array.sharding;
  if (sharding.kind() == Sharding::Kind::row_tiles) {
    const RowTiles tiles(array.shape[0], sharding.num_devices(), sharding.over_decompose());
    if (tiles.num_tiles == 0 || tiles.total % tiles.tile_rows == 0) return;
    notes.add(array.name, cat("uneven tiles: dimension 0 (size ", tiles.total, ") in ", tiles.num_tiles, " tiles of ",
                              tiles.tile_rows, " rows, the last of ", tiles.total % tiles.tile_rows));
    return;
  }
  if (sharding.kind() != Sharding::Kind::named) return;
  const Dims dims = sharding.tiles_per_dim(array.shape.size());
  for (int d = 0; d < array.shape.size(); ++d) {
    const std::int64_t size = array.shape[d];
    if (size % dims[d] == 0) continue;
    const std::int64_t tile = size / dims[d] + 1;
    const std::int64_t last = size % tile == 0 ? tile : size % tile;
    const std::int64_t filled = size / tile + (size % tile == 0 ? 0 : 1);
    notes.add(array.name, cat("uneven tiles: dimension ", d, " (size ", size, ") over ", dims[d], ": tiles of ", tile,
                              ", the last of ", last, filled < dims[d] ? cat(", ", dims[d] - filled, " empty") : ""));
  }
}

std::string group_list(const std::vector<std::vector<std::int32_t>>& groups) {
  std::vector<std::string> texts;
  for (const std::vector<std::int32_t>& group : groups) {
    std::vector<std::string> members;
    for (const std::int32_t process : group) members.push_back(cat(process));
    texts.push_back(cat("{", members.size() > 16 ? join_first(members, 16) : join(members, ","), "}"));
  }
  return join_first(texts, kListed);
}

void note_replication(const PlannedArray& array, bool whole_mesh, std::int32_t process_count, NoteList& notes) {
  const Sharding& sharding = array.sharding;
  const int ndim = array.shape.size();
  const std::int64_t factor = sharding.replication_factor(ndim);
  if (factor <= 1) return;
  std::string text = sharding.is_fully_replicated(ndim)
                         ? cat("fully replicated: each of ", sharding.num_devices(), " devices holds everything")
                         : cat("replication factor ", factor, ": each box is on ", factor, " devices");
  if (whole_mesh && process_count > 1) {
    text += cat("; processes that load the same: ", group_list(load_groups(sharding, array.shape)));
  }
  notes.add(array.name, text);
}

std::string factor_of(std::int64_t bytes, std::int64_t base) {
  if (base == 0) return "";
  return cat(" (", format_fixed(static_cast<double>(bytes) / static_cast<double>(base), 2),
             " times the bytes needed are read)");
}

void note_bytes(const Plan& plan, std::vector<std::string>& out) {
  const PlanTotals& totals = plan.totals;
  if (plan.strategy == Strategy::global && totals.bytes_read > 0) {
    const std::string ratio =
        totals.bytes_needed == 0
            ? "nothing of it is needed"
            : cat("waste ratio ",
                  format_fixed(static_cast<double>(totals.bytes_read) / static_cast<double>(totals.bytes_needed), 2));
    out.push_back(cat("global reads everything: ", format_count(totals.bytes_read), " bytes for ",
                      format_count(totals.bytes_needed), " needed, ", ratio));
  } else if (totals.over_read_bytes > 0) {
    out.push_back(cat("over-read: ", format_count(totals.over_read_bytes),
                      " bytes beyond those needed are read, as that is cheaper than more requests or as pieces are "
                      "encoded whole",
                      factor_of(totals.bytes_read, totals.bytes_needed)));
  }
  if (totals.duplicate_bytes > 0) {
    out.push_back(
        cat(to_string(plan.strategy), " reads ", format_count(totals.duplicate_bytes), " needed bytes more than once"));
  }
  if (totals.absent_pieces > 0) {
    out.push_back(cat(count_of(totals.absent_pieces, "absent piece"), " filled with the fill value"));
  }
}

}  // namespace

FastPath fast_path(const ArrayEntry& entry, const Sharding& sharding) {
  const Tiling& tiling = entry.tiling;
  if (tiling.scalar() || entry.shape.empty()) return {false, "a scalar has no rows"};
  if (!tiling.all_plain()) return {false, "pieces are chunks or encoded, not whole plain files"};
  if (entry.shape[0] == 0) return {false, "there are no rows"};
  const auto rows = equal_rows(tiling);
  if (!rows) return {false, "the files differ in rows"};
  const std::optional<Tiles> tiles = tiles_of(sharding, entry.shape);
  if (!tiles) return {false, "the sharding is a table of boxes"};
  if (tiles->split_dim > 0) return {false, cat("dimension ", tiles->split_dim, " is split")};
  if (tiles->count != tiling.num_parts()) {
    return {false, cat(count_of(tiling.num_parts(), "file"), " for ", count_of(tiles->count, "tile"))};
  }
  if (tiles->rows != *rows) return {false, cat("tiles of ", tiles->rows, " rows over files of ", *rows)};
  return {true, cat("each of ", count_of(tiles->count, "tile"), " is one whole file of ", count_of(*rows, "row"))};
}

void add_notes(const Catalog& catalog, Plan& plan) {
  static_cast<void>(catalog);
  NoteList notes;
  std::int64_t looked_at = 0;
  for (std::size_t a = 0; a < plan.arrays.size(); ++a) {
    const PlannedArray& array = plan.arrays[a];
    const std::int64_t devices = array.sharding.num_devices();
    const bool whole_mesh = devices <= kMeshLimit && looked_at + devices <= kShardLimit;
    std::vector<Shard> shards;
    if (whole_mesh) {
      looked_at += devices;
      shards = array.sharding.all_shards(array.shape);
    } else {
      for (const Slot& slot : plan.slots) {
        if (slot.array == static_cast<std::int32_t>(a)) shards.push_back(slot.shard);
      }
    }
    if (num_elems(array.shape) == 0) {
      notes.add(array.name, cat("no elements: every device gets an empty box of shape ", to_string(array.shape)));
    } else {
      note_idle(array, shards, whole_mesh, notes);
      note_uneven(array, notes);
      note_replication(array, whole_mesh, array.sharding.mesh().process_count(), notes);
    }
  }
  notes.write(plan.arrays.size(), plan.notes);
  note_bytes(plan, plan.notes);
  if (plan.slots.empty() && !plan.arrays.empty()) {
    plan.notes.push_back(cat("process ", plan.process, " has no device in the mesh and loads nothing"));
  }
}

}  // namespace loadstone::planning
