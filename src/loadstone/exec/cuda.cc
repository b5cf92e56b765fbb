// Fills memory of GPUs. Readers put windows into page-locked slots, and each has a stream that takes them to the
// devices while it reads the next window into another slot.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/exec/checks.h"
#include "loadstone/exec/cuda_memory.h"
#include "loadstone/exec/delivery.h"
#include "loadstone/exec/executor.h"
#include "loadstone/exec/pinned_slots.h"
#include "loadstone/exec/windows.h"
#include "loadstone/io/file_cache.h"

namespace loadstone {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPollInterval{20};
constexpr int kSlotsPerReader = 2;  // one being read into while the other is on its way

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// A slot and what has to happen before it may be written again.
struct RingSlot {
  PinnedSlot pinned;
  std::shared_ptr<Memory> pageable;                       ///< where no more memory could be locked
  std::map<int, std::unique_ptr<cuda::OwnedEvent>> sent;  ///< by GPU
  std::vector<int> pending;

  std::span<std::byte> bytes() const {
    return pageable ? std::span{pageable->base(), static_cast<std::size_t>(pageable->bytes())}
                    : std::span{pinned.data, static_cast<std::size_t>(pinned.bytes)};
  }
};

/// Pageable memory that a worker keeps from window to window. Grows, never shrinks.
class Scratch {
 public:
  std::span<std::byte> take(std::int64_t bytes) {
    if (!memory_ || memory_->bytes() < bytes) {
      memory_.reset();
      memory_ = Memory::allocate_host(bytes);
    }
    return {memory_->base(), static_cast<std::size_t>(bytes)};
  }
  std::int64_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  std::shared_ptr<Memory> memory_;
};

/// Calls fn with boxes that cover `box`, each of at most max_bytes (one element at least), cut along the slowest
/// dimensions first. Returns false as soon as fn does.
template <typename Fn>
bool for_each_slice(const Box& box, std::int64_t itemsize, std::int64_t max_bytes, const Fn& fn) {
  if (box.empty()) return true;
  if (box.num_elems() * itemsize <= max_bytes || box.num_elems() == 1) return fn(box);
  int d = 0;
  while (box.extent(d) == 1) ++d;
  const std::int64_t row = box.num_elems() / box.extent(d) * itemsize;
  const std::int64_t step = std::max<std::int64_t>(max_bytes / row, 1);
  for (std::int64_t i = box.begin[d]; i < box.end[d]; i += step) {
    Box part = box;
    part.begin[d] = i;
    part.end[d] = std::min(i + step, box.end[d]);
    if (!for_each_slice(part, itemsize, max_bytes, fn)) return false;
  }
  return true;
}

/// What the workers of one load share.
struct Shared {
  const Catalog& catalog;
  const Plan& plan;
  const ExecOptions& options;
  FileCache files;
  SlotBuffers slots;
  /// Host copies of slots of packed types, which are put together there and cross as a whole.
  std::vector<View> packed;
  WindowQueue queue;
  ProgressMeter progress;
  Failures failures;
  std::atomic<bool> failed{false};
  std::mutex stats_mutex;
  LoadStats stats;

  Shared(const Catalog& of, const Plan& what, const ExecOptions& how, BufferProvider& buffers)
      : catalog(of),
        plan(what),
        options(how),
        files(how.sources == nullptr ? pread_sources() : *how.sources, how.max_open_files),
        slots(allocate_slots(what, &buffers)),
        packed(what.slots.size()),
        queue(of, what),
        progress(how.progress, "load", what.totals.bytes_read) {
    for (std::size_t i = 0; i < plan.slots.size(); ++i) {
      const Slot& slot = plan.slots[i];
      const DType dtype = plan.arrays[at(slot.array)].dtype;
      if (slot.shard.device.place.kind != PlaceKind::cuda || dtype.whole_bytes() || slot.nbytes == 0) continue;
      packed[i] = View::allocate(slot.shard.box.shape(), dtype);
      slots.blocks[i] = dense_block(packed[i].data(), slot.shard.box, dtype);
    }
  }

  /// The GPU whose memory a slot's block is in; -1 for host memory.
  int gpu_of(std::int32_t slot) const {
    const Place place = plan.slots[at(slot)].shard.device.place;
    return place.kind == PlaceKind::cuda && packed[at(slot)].nbytes() == 0 ? place.ordinal : -1;
  }
};

/// One reader: its slots, its streams, and the windows it takes from the queue.
class Reader {
 public:
  Reader(Shared& shared, int number, int first_gpu) : shared_(shared), number_(number), first_gpu_(first_gpu) {
    lease_.emplace(PinnedSlots::shared().take(first_gpu, kSlotsPerReader, shared.plan.options.window_bytes));
    for (int i = 0; i < kSlotsPerReader; ++i) {
      RingSlot& slot = ring_.emplace_back();
      if (static_cast<std::size_t>(i) < lease_->slots().size()) {
        slot.pinned = lease_->slots()[static_cast<std::size_t>(i)];
      } else {
        slot.pageable = Memory::allocate_host(shared.plan.options.window_bytes);
      }
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Places this window and then those that the queue still has.
  void run(Window first) {
    const cuda::Scope current(first_gpu_);  // for all of the calls below
    std::optional<Window> window = std::move(first);
    while (window) {
      place(*window);
      if (halted()) return;
      window = shared_.queue.next();
    }
  }
  /// Waits for what has been queued. Error{system} with the first failure on any GPU.
  void finish() {
    for (const auto& [ordinal, delivery] : deliveries_) delivery->synchronize();
  }
  LoadStats stats() const {
    LoadStats out = stats_;
    for (const RingSlot& slot : ring_) out.peak_staging_bytes += static_cast<std::int64_t>(slot.bytes().size());
    out.peak_staging_bytes += stored_.bytes() + decoded_.bytes();
    return out;
  }

 private:
  bool halted() {
    if (shared_.failed.load(std::memory_order_relaxed)) return true;
    CancelToken* cancel = shared_.options.cancel;
    if (cancel == nullptr) return false;
    if (number_ != 0) return cancel->requested();
    const Clock::time_point now = Clock::now();
    if (now - polled_ < kPollInterval) return cancel->requested();
    polled_ = now;
    return cancel->poll();
  }

  const std::vector<Target>& targets(const Window& window) const { return shared_.plan.reads[at(window.read)].targets; }

  void place(const Window& window) {
    const PlannedArray& array = shared_.plan.arrays[at(shared_.plan.reads[at(window.read)].array)];
    const ArrayEntry& entry = shared_.catalog.arrays[static_cast<std::size_t>(array.catalog_index)];
    ++stats_.windows;
    if (window.piece.absent) {
      place_absent(window, entry);
    } else if (window.piece.encoding >= 0) {
      place_encoded(window, entry);
    } else {
      place_plain(window, entry.dtype);
    }
  }

  void place_plain(const Window& window, DType dtype) {
    const std::shared_ptr<ByteSource> file = open(window.piece);
    const std::int64_t bytes = window.pattern.bytes_read();
    const std::int64_t swap = swap_of(window.piece, dtype);
    // Bytes that nobody wants need not cross the link, and a row wider than a slot has to go in parts.
    if (!dtype.whole_bytes() || bytes > slot_bytes() || wanted_bytes(window, dtype) * 2 < bytes) {
      const std::span<std::byte> staging = stored_.take(bytes);
      if (!read_runs(*file, window, staging)) return;
      const Block source = block_of(window, staging.data(), dtype);
      send_through_slots(window, source, dtype, swap);
      return;
    }
    RingSlot& slot = next_slot();
    const std::span<std::byte> staging = slot.bytes().first(static_cast<std::size_t>(bytes));
    if (!read_runs(*file, window, staging)) return;
    std::int64_t swap_later = swap;
    if (swap > 1 && shared_.options.tap) {  // digests are of native bytes
      swap_in_place(staging.data(), bytes, swap);
      swap_later = 1;
    }
    send(slot, staging, window, block_of(window, staging.data(), dtype), window.box, dtype, swap_later);
  }

  void place_encoded(const Window& window, const ArrayEntry& entry) {
    const Piece& piece = window.piece;
    const std::shared_ptr<ByteSource> file = open(piece);
    const bool reads_file = encoding_of(entry, piece).reads_file;
    if (!reads_file) check_inside(*file, piece, entry);
    Box box{piece.box.begin, piece.box.begin};
    for (int d = 0; d < box.ndim(); ++d) box.end[d] += piece.stored_shape[d];
    const std::int64_t bytes = entry.dtype.nbytes(box.num_elems());
    const std::span<std::byte> stored = stored_.take(reads_file ? 0 : piece.stored_bytes);
    if (reads_file) {
      ++stats_.requests;
      stats_.bytes_read += piece.stored_bytes;
    } else {
      read(*file, piece.offset_bytes, stored);
    }
    const bool fits =
        entry.dtype.whole_bytes() && bytes <= slot_bytes() && wanted_bytes(window, entry.dtype) * 2 >= bytes;
    if (fits) {
      RingSlot& slot = next_slot();
      const std::span<std::byte> out = slot.bytes().first(static_cast<std::size_t>(bytes));
      decode(entry, piece, stored, out);
      send(slot, out, window, dense_block(out.data(), box, entry.dtype), window.box, entry.dtype, 1);
    } else {
      const std::span<std::byte> out = decoded_.take(bytes);
      decode(entry, piece, stored, out);
      send_through_slots(window, dense_block(out.data(), box, entry.dtype), entry.dtype, 1);
    }
  }

  void decode(const ArrayEntry& entry, const Piece& piece, std::span<const std::byte> stored,
              std::span<std::byte> out) {
    const TraceScope scope(shared_.options.trace, "decode", "copy", number_);
    decode_piece(shared_.catalog, entry, piece, shared_.options, stored, out);
    ++stats_.decoded_pieces;
  }

  static void check_inside(const ByteSource& file, const Piece& piece, const ArrayEntry& entry) {
    const std::int64_t size = file.stamp().size_bytes;
    if (piece.offset_bytes >= 0 && piece.stored_bytes >= 0 && piece.stored_bytes <= size &&
        piece.offset_bytes <= size - piece.stored_bytes) {
      return;
    }
    const ErrorFacts facts{std::string(file.path()), cat(piece.stored_bytes, " bytes at offset ", piece.offset_bytes),
                           cat("a file of ", size, " bytes"), 0};
    throw data_error(cat("'", printable(file.path()), "': piece ", piece.number, " of array '", printable(entry.name),
                         "': expected ", facts.expected, ", found ", facts.found),
                     facts);
  }

  void place_absent(const Window& window, const ArrayEntry& entry) {
    const std::byte* element = fill_value(entry, window.piece);
    const Box share = intersect(window.piece.box, shared_.plan.reads[at(window.read)].box);
    if (window.box.begin == share.begin) ++stats_.absent_pieces;
    if (!entry.dtype.whole_bytes()) {
      for (const Target& target : targets(window)) {
        const Box part = intersect(target.box, window.box);
        if (part.empty()) continue;
        fill_part(shared_.slots.blocks[at(target.slot)], part, entry.dtype, element);
        tap(target.slot, part, shared_.slots.blocks[at(target.slot)], entry.dtype);
      }
      return;
    }
    for_each_slice(window.box, entry.dtype.itemsize(), slot_bytes(), [&](const Box& part) {
      RingSlot& slot = next_slot();
      const std::span<std::byte> bytes =
          slot.bytes().first(static_cast<std::size_t>(entry.dtype.nbytes(part.num_elems())));
      const Block source = dense_block(bytes.data(), part, entry.dtype);
      fill_part(source, part, entry.dtype, element);
      send(slot, bytes, window, source, part, entry.dtype, 1);
      return !halted();
    });
  }

  /// From pageable memory: what is wanted is gathered, slice by slice, in the order of its destination.
  void send_through_slots(const Window& window, const Block& source, DType dtype, std::int64_t swap) {
    if (!dtype.whole_bytes()) {
      for (const Target& target : targets(window)) {
        const Box part = intersect(target.box, window.box);
        if (!part.empty()) to_host(target.slot, source, part, dtype, swap);
      }
      return;
    }
    // Targets that want the same part get it from one slot.
    std::vector<Box> done;
    for (const Target& target : targets(window)) {
      const Box wanted = intersect(target.box, window.box);
      if (wanted.empty() || std::find(done.begin(), done.end(), wanted) != done.end()) continue;
      done.push_back(wanted);
      const bool went_on = for_each_slice(wanted, dtype.itemsize(), slot_bytes(), [&](const Box& part) {
        RingSlot& slot = next_slot();
        const std::span<std::byte> bytes = slot.bytes().first(static_cast<std::size_t>(dtype.nbytes(part.num_elems())));
        const Block dense = dense_block(bytes.data(), part, dtype);
        copy_part(dense, source, part, dtype, swap);
        stats_.bytes_copied += dtype.nbytes(part.num_elems());
        send(slot, bytes, window, dense, part, dtype, 1, &wanted);
        return !halted();
      });
      if (!went_on) return;
    }
  }

  /// Sends `part` of a slot's block to every target that wants some of it (with `only`: whose share of the window is
  /// exactly that box).
  void send(RingSlot& slot, std::span<const std::byte> bytes, const Window& window, const Block& source,
            const Box& part, DType dtype, std::int64_t swap, const Box* only = nullptr) {
    std::map<int, std::vector<Parcel>> by_gpu;
    for (const Target& target : targets(window)) {
      const Box share = intersect(target.box, window.box);
      if (only != nullptr && share != *only) continue;
      const Box wanted = intersect(share, part);
      if (wanted.empty()) continue;
      const int gpu = shared_.gpu_of(target.slot);
      if (gpu < 0) {
        to_host(target.slot, source, wanted, dtype, swap);
        continue;
      }
      by_gpu[gpu].push_back({shared_.slots.blocks[at(target.slot)], source, wanted, dtype, swap});
      stats_.bytes_copied += dtype.nbytes(wanted.num_elems());
    }
    send_parcels(slot, bytes, by_gpu);
    // Digests while the copies are under way.
    if (!shared_.options.tap) return;
    for (const Target& target : targets(window)) {
      const Box share = intersect(target.box, window.box);
      if (only != nullptr && share != *only) continue;
      const Box wanted = intersect(share, part);
      if (!wanted.empty() && shared_.gpu_of(target.slot) >= 0) tap(target.slot, wanted, source, dtype);
    }
  }

  void send_parcels(RingSlot& slot, std::span<const std::byte> bytes,
                    const std::map<int, std::vector<Parcel>>& by_gpu) {
    const TraceScope scope(shared_.options.trace, "copy", "copy", number_);
    for (const auto& [gpu, parcels] : by_gpu) {
      Delivery& delivery = delivery_to(gpu);
      // Should a copy fail, those queued before it still read the slot: the stream is waited for when it goes.
      delivery.send(bytes, parcels);
      std::unique_ptr<cuda::OwnedEvent>& event = slot.sent[gpu];
      if (!event) event = std::make_unique<cuda::OwnedEvent>(gpu);
      const cuda::Scope current(gpu);
      cuda::check(cuda::driver()->event_record(event->get(), delivery.stream()), cat("mark a copy on cuda:", gpu));
      slot.pending.push_back(gpu);
    }
  }

  void to_host(std::int32_t slot, const Block& source, const Box& part, DType dtype, std::int64_t swap) {
    const Block& block = shared_.slots.blocks[at(slot)];
    copy_part(block, source, part, dtype, swap);
    stats_.bytes_copied += dtype.nbytes(part.num_elems());
    tap(slot, part, block, dtype);
  }

  void tap(std::int32_t slot, const Box& part, const Block& block, DType dtype) {
    if (!shared_.options.tap) return;
    shared_.options.tap(number_, {slot, part, address_of(block, part.begin, dtype), block.strides_bytes});
  }

  Delivery& delivery_to(int gpu) {
    std::unique_ptr<Delivery>& delivery = deliveries_[gpu];
    if (!delivery) delivery = std::make_unique<Delivery>(gpu);
    return *delivery;
  }

  std::int64_t slot_bytes() const { return static_cast<std::int64_t>(ring_.front().bytes().size()); }

  /// The slot whose bytes left longest ago, once they have left.
  RingSlot& next_slot() {
    RingSlot& slot = ring_[next_];
    next_ = (next_ + 1) % ring_.size();
    for (const int gpu : slot.pending) {
      const cuda::Scope scope(gpu);
      cuda::check(cuda::driver()->event_synchronize(slot.sent[gpu]->get()), cat("copy to cuda:", gpu));
    }
    slot.pending.clear();
    return slot;
  }

  std::int64_t wanted_bytes(const Window& window, DType dtype) const {
    std::int64_t sum = 0;
    for (const Target& target : targets(window)) {
      sum += dtype.nbytes(intersect(target.box, window.box).num_elems());
    }
    return sum;
  }

  static Block block_of(const Window& window, std::byte* data, DType dtype) {
    const RunLayout layout =
        dtype.whole_bytes() ? run_layout(window.piece, window.box, dtype, window.pattern) : RunLayout{};
    return {data, window.box, layout.strides_bytes};
  }

  std::shared_ptr<ByteSource> open(const Piece& piece) {
    return shared_.files.get(piece.file, shared_.catalog.files.path(piece.file),
                             shared_.catalog.files.stamp(piece.file));
  }

  /// Every run of the window's pattern, behind one another. False when halted on the way.
  bool read_runs(ByteSource& file, const Window& window, std::span<std::byte> staging) {
    const auto run = static_cast<std::size_t>(window.pattern.run_bytes);
    return for_each_run(window.pattern, [&](std::int64_t offset, std::int64_t i) {
      read(file, offset, staging.subspan(static_cast<std::size_t>(i) * run, run));
      return !halted();
    });
  }

  void read(ByteSource& file, std::int64_t offset, std::span<std::byte> to) {
    const auto bytes = static_cast<std::int64_t>(to.size());
    {
      TraceScope scope(shared_.options.trace, "read", "read", number_);
      if (shared_.options.trace != nullptr) {
        scope.arg("bytes", std::to_string(bytes));
        scope.arg("file", std::string(file.path()));
      }
      file.read(offset, to);
    }
    ++stats_.requests;
    stats_.bytes_read += bytes;
    shared_.progress.add(bytes);
  }

  Shared& shared_;
  int number_;
  int first_gpu_;
  std::optional<PinnedSlots::Lease> lease_;
  std::vector<RingSlot> ring_;
  std::size_t next_ = 0;
  Scratch stored_, decoded_;
  LoadStats stats_;
  Clock::time_point polled_;
  // Last: streams are waited for before the slots that they read from go.
  std::map<int, std::unique_ptr<Delivery>> deliveries_;
};

class Load {
 public:
  Load(const Catalog& catalog, const Plan& plan, const ExecOptions& options, BufferProvider& buffers)
      : shared_(catalog, plan, options, buffers) {}

  Placement run() {
    const Clock::time_point begin = Clock::now();
    const std::int64_t stale = stale_retries();
    shared_.options.pool->run_on_all([&](int number) { work(number); });
    shared_.failures.rethrow_if_any();
    throw_if_requested(shared_.options.cancel);
    send_packed();
    run_device_copies();
    shared_.progress.finish();
    LoadStats& stats = shared_.stats;
    stats.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    stats.opens = shared_.files.opens();
    stats.retries_stale = stale_retries() - stale;
    stats.threads = shared_.options.pool->size();
    return make_placement(shared_.plan, std::move(shared_.slots), stats);
  }

 private:
  int first_gpu() const {
    for (const Slot& slot : shared_.plan.slots) {
      if (slot.shard.device.place.kind == PlaceKind::cuda) return slot.shard.device.place.ordinal;
    }
    return 0;
  }

  void work(int number) noexcept {
    try {
      throw_if_requested(shared_.options.cancel);
      // A reader that gets no window locks no memory.
      std::optional<Window> first = shared_.queue.next();
      if (!first) return;
      Reader reader(shared_, number, first_gpu());
      reader.run(std::move(*first));
      reader.finish();
      add_stats(reader.stats());
    } catch (...) {
      shared_.failures.add();
      shared_.failed.store(true, std::memory_order_relaxed);
      shared_.queue.stop();
    }
  }

  void send_packed() {
    for (std::size_t i = 0; i < shared_.packed.size(); ++i) {
      const View& host = shared_.packed[i];
      if (host.nbytes() == 0) continue;
      const int gpu = shared_.plan.slots[i].shard.device.place.ordinal;
      Delivery delivery(gpu);
      {
        const cuda::Scope scope(gpu);
        delivery.send_bytes(reinterpret_cast<std::uintptr_t>(shared_.slots.views[i].data()), host.bytes());
      }
      delivery.synchronize();
    }
  }

  /// Plan::copies, by way of the host where they are not contiguous on one device.
  void run_device_copies() {
    for (const Copy& copy : shared_.plan.copies) {
      if (shared_.options.cancel != nullptr && shared_.options.cancel->poll()) throw Interrupted();
      const Slot& to = shared_.plan.slots[at(copy.to_slot)];
      const Slot& from = shared_.plan.slots[at(copy.from_slot)];
      throw internal_error(cat("copies between ", to_string(from.shard.device), " and ", to_string(to.shard.device),
                               " are not made by this executor"));
    }
  }

  void add_stats(const LoadStats& stats) {
    const std::lock_guard<std::mutex> lock(shared_.stats_mutex);
    LoadStats& sum = shared_.stats;
    sum.bytes_read += stats.bytes_read;
    sum.bytes_copied += stats.bytes_copied;
    sum.requests += stats.requests;
    sum.windows += stats.windows;
    sum.decoded_pieces += stats.decoded_pieces;
    sum.absent_pieces += stats.absent_pieces;
    sum.peak_staging_bytes += stats.peak_staging_bytes;
  }

  Shared shared_;
};

bool is_gpu_or_host(Place place) {
  return place.kind == PlaceKind::cuda || place.host_accessible();
}

class CudaExecutor final : public Executor {
 public:
  Placement run(const Catalog& catalog, const Plan& plan, const ExecOptions& options) override {
    check_runnable(catalog, plan, options, is_gpu_or_host);
    check_device_memory(plan);
    const std::unique_ptr<BufferProvider> own = device_buffers();
    return Load(catalog, plan, options, options.buffers == nullptr ? *own : *options.buffers).run();
  }
};

}  // namespace

extern const ExecutorEntry cuda_executor;
const ExecutorEntry cuda_executor{
    "cuda",
    [] { return cuda::driver_problem(); },
    [](const Device& device) { return is_gpu_or_host(device.place); },
    [] { return std::unique_ptr<Executor>(std::make_unique<CudaExecutor>()); },
};

}  // namespace loadstone
