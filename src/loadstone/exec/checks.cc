#include "loadstone/exec/checks.h"

#include <new>
#include <string>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/format.h"

namespace loadstone {

namespace {

template <typename T>
bool in_range(std::int64_t index, const std::vector<T>& list) {
  return index >= 0 && index < static_cast<std::int64_t>(list.size());
}
template <typename T>
const T& at(const std::vector<T>& list, std::int64_t index) {
  return list[static_cast<std::size_t>(index)];
}

[[noreturn]] void misfit(const std::string& what) {
  throw internal_error(cat("the plan does not fit its catalog: ", what));
}

const Format* decoder_of(const Encoding& encoding) {
  const Format* format = find_format(encoding.format);
  return format != nullptr && format->decode != nullptr ? format : nullptr;
}

void check_array(const Catalog& catalog, const PlannedArray& array, const ExecOptions& options) {
  if (!in_range(array.catalog_index, catalog.arrays)) misfit(cat("no array ", array.catalog_index));
  const ArrayEntry& entry = at(catalog.arrays, array.catalog_index);
  if (entry.dtype != array.dtype || entry.shape != array.shape) {
    misfit(cat("array '", printable(entry.name), "' is ", to_string(entry.dtype), " ", to_string(entry.shape),
               ", planned ", to_string(array.dtype), " ", to_string(array.shape)));
  }
  if (!entry.fill.empty() && entry.dtype.whole_bytes() &&
      static_cast<std::int64_t>(entry.fill.size()) != entry.dtype.itemsize()) {
    misfit(cat("the fill value of array '", printable(entry.name), "' has ", entry.fill.size(), " bytes"));
  }
  if (options.decode) return;
  for (const Encoding& encoding : entry.encodings) {
    if (decoder_of(encoding) == nullptr) {
      throw usage_error(cat("array '", printable(entry.name), "': pieces of format '", printable(encoding.format),
                            "' cannot be decoded by this build"));
    }
  }
}

void check_slot(const Plan& plan, const Slot& slot) {
  if (!in_range(slot.array, plan.arrays)) misfit(cat("a slot of array ", slot.array));
  const PlannedArray& array = at(plan.arrays, slot.array);
  const Box& box = slot.shard.box;
  if (box.ndim() != array.shape.size() || !Box::whole(array.shape).contains(box) ||
      slot.nbytes != array.dtype.nbytes(box.num_elems())) {
    misfit(cat("a slot of box ", to_string(box), " and ", slot.nbytes, " bytes in ", to_string(array.shape)));
  }
}

void check_read(const Plan& plan, const Read& read) {
  if (!in_range(read.array, plan.arrays)) misfit(cat("a read of array ", read.array));
  const Shape& shape = at(plan.arrays, read.array).shape;
  if (read.box.ndim() != shape.size() || !Box::whole(shape).contains(read.box)) {
    misfit(cat("a read of ", to_string(read.box), " in ", to_string(shape)));
  }
  for (const Target& target : read.targets) {
    if (!in_range(target.slot, plan.slots) || at(plan.slots, target.slot).array != read.array ||
        target.box.ndim() != shape.size() || !at(plan.slots, target.slot).shard.box.contains(target.box) ||
        !read.box.contains(target.box)) {
      misfit(cat("target ", to_string(target.box), " in slot ", target.slot));
    }
  }
}

void check_copy(const Plan& plan, const Copy& copy) {
  if (!in_range(copy.from_slot, plan.slots) || !in_range(copy.to_slot, plan.slots) || copy.from_slot == copy.to_slot) {
    misfit(cat("a copy from slot ", copy.from_slot, " to slot ", copy.to_slot));
  }
  const Slot& from = at(plan.slots, copy.from_slot);
  const Slot& to = at(plan.slots, copy.to_slot);
  if (at(plan.arrays, from.array).dtype != at(plan.arrays, to.array).dtype ||
      copy.box.ndim() != from.shard.box.ndim() || copy.box.ndim() != to.shard.box.ndim() ||
      !from.shard.box.contains(copy.box) || !to.shard.box.contains(copy.box)) {
    misfit(cat("a copy of ", to_string(copy.box)));
  }
}

}  // namespace

void check_runnable(const Catalog& catalog, const Plan& plan, const ExecOptions& options, bool (*fills)(Place)) {
  if (options.pool == nullptr) throw internal_error("an executor without a thread pool");
  for (const PlannedArray& array : plan.arrays) check_array(catalog, array, options);
  for (const Slot& slot : plan.slots) {
    check_slot(plan, slot);
    const Device& device = slot.shard.device;
    if (fills == nullptr ? !device.place.host_accessible() : !fills(device.place)) {
      throw Error(ErrorKind::system, cat(to_string(device), ": not host memory, which is all this executor fills"));
    }
  }
  for (const Read& read : plan.reads) check_read(plan, read);
  for (const Copy& copy : plan.copies) check_copy(plan, copy);
}

namespace {

/// Host memory of any kind will do for a host device; a GPU wants its own.
bool fits_place(Place found, Place wanted) {
  return wanted.host_accessible() ? found.host_accessible() : found == wanted;
}

}  // namespace

SlotBuffers allocate_slots(const Plan& plan, BufferProvider* provider) {
  const std::unique_ptr<BufferProvider> own = provider == nullptr ? host_buffers() : nullptr;
  if (provider == nullptr) provider = own.get();
  SlotBuffers out;
  out.views.reserve(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const DType dtype = at(plan.arrays, slot.array).dtype;
    View view = provider->buffer(plan, static_cast<std::int32_t>(i));
    const bool good = view.dtype() == dtype && view.shape() == slot.shard.box.shape() && view.layout().contiguous() &&
                      !view.readonly() && (slot.nbytes == 0 || fits_place(view.place(), slot.shard.device.place));
    if (!good) {
      throw internal_error(cat("the buffer of slot ", i, ": expected writable memory of ",
                               to_string(slot.shard.device.place), " for ", to_string(dtype), " ",
                               to_string(slot.shard.box.shape()), ", found ", to_string(view.dtype()), " ",
                               to_string(view.shape()), " on ", to_string(view.place())));
    }
    out.blocks.push_back(dense_block(view.data(), slot.shard.box, dtype));
    out.views.push_back(std::move(view));
  }
  return out;
}

std::int64_t run_copies(const Plan& plan, const SlotBuffers& slots, const ExecOptions& options) {
  std::int64_t bytes = 0;
  for (const Copy& copy : plan.copies) {
    if (options.cancel != nullptr && options.cancel->poll()) throw Interrupted();
    const DType dtype = at(plan.arrays, at(plan.slots, copy.to_slot).array).dtype;
    TraceScope scope(options.trace, "copy", "copy");
    if (options.trace != nullptr) scope.arg("bytes", std::to_string(dtype.nbytes(copy.box.num_elems())));
    copy_part(at(slots.blocks, copy.to_slot), at(slots.blocks, copy.from_slot), copy.box, dtype);
    bytes += dtype.nbytes(copy.box.num_elems());
  }
  return bytes;
}

Placement make_placement(const Plan& plan, SlotBuffers slots, LoadStats stats) {
  Placement out;
  out.process = plan.process;
  out.stats = stats;
  for (const PlannedArray& array : plan.arrays) {
    out.arrays.push_back({array.name, array.dtype, array.shape, array.sharding});
  }
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    out.shards.push_back({plan.slots[i].array, plan.slots[i].shard, std::move(slots.views[i])});
  }
  return out;
}

const Encoding& encoding_of(const ArrayEntry& entry, const Piece& piece) {
  if (!in_range(piece.encoding, entry.encodings)) misfit(cat("encoding ", piece.encoding));
  return at(entry.encodings, piece.encoding);
}

void decode_piece(const Catalog& catalog, const ArrayEntry& entry, const Piece& piece, const ExecOptions& options,
                  std::span<const std::byte> stored, std::span<std::byte> out) {
  const Encoding& encoding = encoding_of(entry, piece);
  try {
    if (options.decode) {
      options.decode(encoding, piece, entry.dtype, stored, out);
    } else if (const Format* format = decoder_of(encoding)) {
      format->decode(encoding, piece, entry.dtype, stored, out);
    } else {
      misfit(cat("no decoder for '", encoding.format, "'"));
    }
  } catch (const Error& error) {
    ErrorFacts facts = error.facts();
    const std::string path = catalog.files.path(piece.file);
    if (facts.file.empty()) facts.file = path;
    throw Error(error.kind(),
                cat("'", printable(path), "': piece ", piece.number, " of array '", printable(entry.name),
                    "' at offset ", piece.offset_bytes, ": ", error.message()),
                std::move(facts), error.where());
  }
}

const std::byte* fill_value(const ArrayEntry& entry, const Piece& piece) {
  if (!entry.fill.empty()) return entry.fill.data();
  throw data_error(cat("array '", printable(entry.name), "': piece ", piece.number, " ", to_string(piece.box),
                       " is absent and the array has no fill value"));
}

void Failures::add() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (first_) {
    ++others_;
  } else {
    first_ = std::current_exception();
  }
}

void Failures::rethrow_if_any() const {
  if (!first_) return;
  const std::string more =
      others_ == 0 ? std::string() : cat(" (and ", others_, others_ == 1 ? " more failure)" : " more failures)");
  try {
    std::rethrow_exception(first_);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), cat(error.message(), more), error.facts(), error.where());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::system, cat("out of memory while loading", more));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::system, cat("loading failed: ", error.what(), more));
  } catch (...) {
    throw Error(ErrorKind::system, cat("loading failed: an exception of unknown type", more));
  }
}

}  // namespace loadstone
