#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/exec/blocks.h"
#include "loadstone/exec/checks.h"
#include "loadstone/exec/cut.h"
#include "loadstone/exec/executor.h"
#include "loadstone/exec/windows.h"
#include "loadstone/io/file_cache.h"

namespace loadstone {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPollInterval{20};
// Bytes that are still in the second-level cache when they are looked at again: for a digest, a copy, a byte swap.
constexpr std::int64_t kInCache = 256 << 10;
constexpr std::int64_t kPopulateFrom = 256 << 10;  // bytes: shorter runs fault their own pages
constexpr std::int64_t kPopulateStep = 8 << 20;    // bytes, whole huge pages

thread_local int tracing_worker = 0;

/// Opens files inside a trace scope.
class TracedSources final : public ByteSourceFactory {
 public:
  TracedSources(ByteSourceFactory& sources, Trace* trace) : sources_(sources), trace_(trace) {}
  std::unique_ptr<ByteSource> open(const std::string& path) override {
    TraceScope scope(trace_, "open", "read", tracing_worker);
    if (trace_ != nullptr) scope.arg("file", path);
    return sources_.open(path);
  }

 private:
  ByteSourceFactory& sources_;
  Trace* trace_;
};

/// Memory that a worker keeps from window to window. Grows, never shrinks.
class Scratch {
 public:
  std::span<std::byte> take(std::int64_t bytes, std::atomic<std::int64_t>& total) {
    if (!memory_ || memory_->bytes() < bytes) {
      if (memory_) total.fetch_sub(memory_->bytes());
      memory_.reset();
      memory_ = Memory::allocate_host(bytes);
      total.fetch_add(bytes);
    }
    return {memory_->base(), static_cast<std::size_t>(bytes)};
  }

 private:
  std::shared_ptr<Memory> memory_;
};

/// What one worker has: its staging slot, decode buffers and counters.
struct Worker {
  int number = 0;
  Scratch staging, decoded;
  LoadStats stats;
  Clock::time_point polled;  ///< when the cancel token was last asked
};

/// One load. Lives until all workers have been joined; the buffers go with it when it fails.
class Load {
 public:
  Load(const Catalog& catalog, const Plan& plan, const ExecOptions& options)
      : catalog_(catalog),
        plan_(plan),
        options_(options),
        sources_(options.sources == nullptr ? residency_ : *options.sources, options.trace),
        files_(sources_, options.max_open_files),
        slots_(allocate_slots(plan, options.buffers)),
        queue_(catalog, plan),
        progress_(options.progress, "load", plan.totals.bytes_read) {}

  Placement run() {
    const Clock::time_point begin = Clock::now();
    const std::int64_t stale = stale_retries();
    if (options_.buffers == nullptr) populate_scattered();
    options_.pool->run_on_all([this](int worker) { work(worker); });
    failures_.rethrow_if_any();
    throw_if_requested(options_.cancel);
    stats_.bytes_copied += run_copies(plan_, slots_, options_);
    progress_.finish();
    stats_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    stats_.opens = files_.opens();
    stats_.files_direct = residency_.files_direct();
    stats_.peak_staging_bytes = peak_scratch_.load();
    stats_.retries_stale = stale_retries() - stale;
    stats_.threads = options_.pool->size();
    return make_placement(plan_, std::move(slots_), stats_);
  }

 private:
  void work(int number) noexcept {
    try {
      tracing_worker = number;
      Worker worker;
      worker.number = number;
      while (!halted(worker)) {
        const std::optional<Window> window = queue_.next();
        if (!window) break;
        place(worker, *window);
      }
      add_stats(worker.stats);
    } catch (...) {
      failures_.add();
      failed_.store(true, std::memory_order_relaxed);
      queue_.stop();
    }
  }

  /// True once nothing more is to be started: another worker has failed, or the load was cancelled. The calling thread
  /// asks for a cancellation now and then.
  bool halted(Worker& worker) {
    if (failed_.load(std::memory_order_relaxed)) return true;
    if (options_.cancel == nullptr) return false;
    if (worker.number != 0) return options_.cancel->requested();
    const Clock::time_point now = Clock::now();
    if (now - worker.polled < kPollInterval) return options_.cancel->requested();
    worker.polled = now;
    return options_.cancel->poll();
  }

  void place(Worker& worker, const Window& window) {
    const PlannedArray& array = plan_.arrays[static_cast<std::size_t>(plan_.reads[at(window.read)].array)];
    const ArrayEntry& entry = catalog_.arrays[static_cast<std::size_t>(array.catalog_index)];
    ++worker.stats.windows;
    if (window.piece.absent) {
      place_absent(worker, window, entry);
    } else if (window.piece.encoding >= 0) {
      place_encoded(worker, window, entry);
    } else {
      place_plain(worker, window, entry.dtype);
    }
  }

  /// A window whose bytes are looked at again after they were read, in parts that stay in cache meanwhile. False, and
  /// nothing done, where that gains nothing: short windows, reads that go to the disk, blocks in F order, whose windows
  /// have to be wide to give the destination whole cache lines.
  bool place_in_parts(Worker& worker, ByteSource& file, const Window& window, DType dtype) {
    if (window.pattern.bytes_read() < 2 * kInCache || file.direct() || window.piece.order == ElementOrder::f) {
      return false;
    }
    const Cut cut = cut_plain(window.piece, window.box, dtype, plan_.options.cost, kInCache);
    if (cut.step == window.box.shape()) return false;
    for_each_step(window.piece, window.box, cut.step, [&](const Box& box) {
      Window part{window.read, window.piece, box, {}};
      part.pattern = window.pattern.over_reads ? read_pattern(window.piece, box, dtype, plan_.options.cost)
                                               : exact_pattern(window.piece, box, dtype);
      if (part.pattern.bytes_read() >= window.pattern.bytes_read())
        throw internal_error("a part as long as its window");
      place_plain(worker, part, dtype);
      return !halted(worker);
    });
    return true;
  }

  void place_plain(Worker& worker, const Window& window, DType dtype) {
    const std::shared_ptr<ByteSource> file = open(window.piece);
    const RunLayout layout =
        dtype.whole_bytes() ? run_layout(window.piece, window.box, dtype, window.pattern) : RunLayout{};
    for (const Target& target : targets(window)) {
      if (!target.box.contains(window.box)) continue;
      const Block& block = slots_.blocks[at(target.slot)];
      if (!lands_as_it_lies(block, window, layout, dtype)) continue;
      if ((options_.tap || targets(window).size() > 1) && place_in_parts(worker, *file, window, dtype)) return;
      if (!read_into(worker, *file, window, layout, block, dtype)) return;
      finish(worker, target.slot, window.box, dtype);
      copy_to_others(worker, window, target, dtype);
      return;
    }
    if (place_in_parts(worker, *file, window, dtype)) return;
    const std::span<std::byte> staging = worker.staging.take(window.pattern.bytes_read(), scratch_);
    note_scratch();
    const bool all = for_each_run(window.pattern, [&](std::int64_t offset, std::int64_t i) {
      const auto run = static_cast<std::size_t>(window.pattern.run_bytes);
      read(worker, *file, offset, staging.subspan(static_cast<std::size_t>(i) * run, run));
      return !halted(worker);
    });
    if (!all) return;
    const Block source{staging.data(), window.box, layout.strides_bytes};
    scatter(worker, window, source, dtype, swap_of(window.piece, dtype));
  }

  /// True if every run of the window can be read straight into the slot: native byte order, no gaps, and a run's
  /// elements lie in the slot as they lie in the file.
  static bool lands_as_it_lies(const Block& block, const Window& window, const RunLayout& layout, DType dtype) {
    if (window.pattern.over_reads || swap_of(window.piece, dtype) > 1) return false;
    if (!dtype.whole_bytes()) return window.pattern.num_reads() == 1 && is_dense_part(block.box, window.box, dtype);
    for (int k = layout.outer; k < window.box.ndim(); ++k) {
      const int d = static_cast<int>(layout.order[k]);
      if (window.box.extent(d) > 1 && layout.strides_bytes[d] != block.strides_bytes[d]) return false;
    }
    return true;
  }

  /// True if `part` is one run of whole bytes of a packed block.
  static bool is_dense_part(const Box& box, const Box& part, DType dtype) {
    int d = 0;
    while (d < box.ndim() && part.extent(d) == 1) ++d;
    for (++d; d < box.ndim(); ++d) {
      if (part.extent(d) != box.extent(d)) return false;
    }
    const std::int64_t first = linear_index(part.begin, box);
    const std::int64_t elems = part.num_elems();
    return first * dtype.elem_bits() % 8 == 0 &&
           (elems * dtype.elem_bits() % 8 == 0 || first + elems == box.num_elems());
  }

  /// Gives the pages of [to, to + bytes) to the process at once, which is cheaper than one fault after another. Advice:
  /// where it is refused the reads fault their pages themselves.
  void populate(std::byte* to, std::int64_t bytes) const {
    if (options_.buffers != nullptr || bytes < kPopulateFrom) return;
    constexpr std::uintptr_t kPage = 4096;
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(to) / kPage * kPage;
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(to) + static_cast<std::uintptr_t>(bytes);
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, from Linux 5.14 on
    ::madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateWrite);
  }

  /// True if neighbouring windows of the read go to the same rows of its targets: blocks in F order, boxes side by
  /// side.
  bool scatters(const Read& read) const {
    const PlannedArray& array = plan_.arrays[at(read.array)];
    const Tiling& tiling = catalog_.arrays[static_cast<std::size_t>(array.catalog_index)].tiling;
    if (read.box.ndim() < 2 || tiling.num_parts() == 0) return false;
    if (tiling.part_order(0).second) return true;
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    for (const Target& target : read.targets) rows.emplace_back(target.box.begin[0], target.box.end[0]);
    std::sort(rows.begin(), rows.end());
    return std::adjacent_find(rows.begin(), rows.end(),
                              [](const auto& a, const auto& b) { return b.first < a.second; }) != rows.end();
  }

  /// Where neighbouring windows go to the same pages, two workers would each clear them: all of the pages first.
  void populate_scattered() {
    std::vector<std::int32_t> scattered;
    for (const Read& read : plan_.reads) {
      if (!scatters(read)) continue;
      for (const Target& target : read.targets) scattered.push_back(target.slot);
    }
    std::sort(scattered.begin(), scattered.end());
    scattered.erase(std::unique(scattered.begin(), scattered.end()), scattered.end());
    std::vector<std::pair<std::byte*, std::int64_t>> steps;
    for (const std::int32_t slot : scattered) {
      const View& view = slots_.views[at(slot)];
      for (std::int64_t from = 0; from < view.nbytes(); from += kPopulateStep) {
        steps.emplace_back(view.data() + from, std::min(kPopulateStep, view.nbytes() - from));
      }
    }
    options_.pool->parallel_for(
        static_cast<std::int64_t>(steps.size()),
        [&](std::int64_t i, int) {
          const auto& [to, bytes] = steps[static_cast<std::size_t>(i)];
          populate(to, bytes);
        },
        options_.cancel);
  }

  /// False when it was halted on the way.
  bool read_into(Worker& worker, ByteSource& file, const Window& window, const RunLayout& layout, const Block& block,
                 DType dtype) {
    Dims index = window.box.begin;
    return for_each_run(window.pattern, [&](std::int64_t offset, std::int64_t) {
      std::byte* to = address_of(block, index, dtype);
      populate(to, window.pattern.run_bytes);
      read(worker, file, offset, {to, static_cast<std::size_t>(window.pattern.run_bytes)});
      for (int k = layout.outer - 1; k >= 0; --k) {
        const int d = static_cast<int>(layout.order[k]);
        if (++index[d] < window.box.end[d]) break;
        index[d] = window.box.begin[d];
      }
      return !halted(worker);
    });
  }

  void copy_to_others(Worker& worker, const Window& window, const Target& filled, DType dtype) {
    const Block& from = slots_.blocks[at(filled.slot)];
    for (const Target& target : targets(window)) {
      if (&target == &filled) continue;
      const Box part = intersect(target.box, window.box);
      if (part.empty()) continue;
      place_part(worker, target.slot, from, part, dtype, 1);
    }
  }

  void place_encoded(Worker& worker, const Window& window, const ArrayEntry& entry) {
    const Piece& piece = window.piece;
    const std::shared_ptr<ByteSource> file = open(piece);
    const std::int64_t size = file->stamp().size_bytes;
    const bool reads_file = encoding_of(entry, piece).reads_file;
    if (reads_file) {
      // Counted here, read by the decoder.
    } else if (piece.offset_bytes < 0 || piece.stored_bytes < 0 || piece.stored_bytes > size ||
               piece.offset_bytes > size - piece.stored_bytes) {
      const ErrorFacts facts{std::string(file->path()),
                             cat(piece.stored_bytes, " bytes at offset ", piece.offset_bytes),
                             cat("a file of ", size, " bytes"), 0};
      throw data_error(cat("'", printable(file->path()), "': piece ", piece.number, " of array '",
                           printable(entry.name), "': expected ", facts.expected, ", found ", facts.found),
                       facts);
    }
    const Box stored_box = stored_box_of(piece);
    const std::span<std::byte> stored = worker.staging.take(reads_file ? 0 : piece.stored_bytes, scratch_);
    const std::int64_t bytes = entry.dtype.nbytes(num_elems(piece.stored_shape));
    const Target* direct = dense_target(window, stored_box, entry.dtype);
    const std::span<std::byte> out =
        direct == nullptr ? worker.decoded.take(bytes, scratch_) : dense_bytes(*direct, stored_box, bytes, entry.dtype);
    note_scratch();
    if (reads_file) {
      ++worker.stats.requests;
      worker.stats.bytes_read += piece.stored_bytes;
      progress_.add(piece.stored_bytes);
    } else {
      read(worker, *file, piece.offset_bytes, stored);
    }
    {
      TraceScope scope(options_.trace, "decode", "copy", worker.number);
      decode_piece(catalog_, entry, piece, options_, stored, out);
    }
    ++worker.stats.decoded_pieces;
    if (direct != nullptr) {
      finish(worker, direct->slot, window.box, entry.dtype);
      copy_to_others(worker, window, *direct, entry.dtype);
      return;
    }
    scatter(worker, window, dense_block(out.data(), stored_box, entry.dtype), entry.dtype, 1);
  }

  /// A target in whose block all of the piece lies as it is decoded, element behind element; null if there is none.
  const Target* dense_target(const Window& window, const Box& stored_box, DType dtype) const {
    if (!dtype.whole_bytes() || window.box != stored_box) return nullptr;
    const Dims dense = dense_strides(stored_box.shape(), dtype);
    for (const Target& target : targets(window)) {
      const Dims& strides = slots_.blocks[at(target.slot)].strides_bytes;
      bool lies = target.box.contains(stored_box);
      for (int d = 0; lies && d < dense.size(); ++d) lies = stored_box.extent(d) == 1 || strides[d] == dense[d];
      if (lies) return &target;
    }
    return nullptr;
  }

  std::span<std::byte> dense_bytes(const Target& target, const Box& box, std::int64_t bytes, DType dtype) const {
    return {address_of(slots_.blocks[at(target.slot)], box.begin, dtype), static_cast<std::size_t>(bytes)};
  }

  static Box stored_box_of(const Piece& piece) {
    Box box{piece.box.begin, piece.box.begin};
    for (int d = 0; d < box.ndim(); ++d) box.end[d] += piece.stored_shape[d];
    return box;
  }

  void place_absent(Worker& worker, const Window& window, const ArrayEntry& entry) {
    const std::byte* element = fill_value(entry, window.piece);
    const Box share = intersect(window.piece.box, plan_.reads[at(window.read)].box);
    if (window.box.begin == share.begin) ++worker.stats.absent_pieces;
    for (const Target& target : targets(window)) {
      const Box part = intersect(target.box, window.box);
      if (part.empty()) continue;
      fill_part(slots_.blocks[at(target.slot)], part, entry.dtype, element);
      finish(worker, target.slot, part, entry.dtype);
    }
  }

  /// From staging to every target while the bytes are in cache.
  void scatter(Worker& worker, const Window& window, const Block& source, DType dtype, std::int64_t swap) {
    for (const Target& target : targets(window)) {
      const Box part = intersect(target.box, window.box);
      if (!part.empty()) place_part(worker, target.slot, source, part, dtype, swap);
    }
  }

  void place_part(Worker& worker, std::int32_t slot, const Block& source, const Box& part, DType dtype,
                  std::int64_t swap) {
    {
      TraceScope scope(options_.trace, "copy", "copy", worker.number);
      if (options_.trace != nullptr) scope.arg("bytes", std::to_string(dtype.nbytes(part.num_elems())));
      copy_part(slots_.blocks[at(slot)], source, part, dtype, swap);
    }
    worker.stats.bytes_copied += dtype.nbytes(part.num_elems());
    finish(worker, slot, part, dtype);
  }

  void finish(Worker& worker, std::int32_t slot, const Box& part, DType dtype) {
    if (!options_.tap) return;
    const Block& block = slots_.blocks[at(slot)];
    options_.tap(worker.number, {slot, part, address_of(block, part.begin, dtype), block.strides_bytes});
  }

  std::shared_ptr<ByteSource> open(const Piece& piece) {
    return files_.get(piece.file, catalog_.files.path(piece.file), catalog_.files.stamp(piece.file));
  }

  void read(Worker& worker, ByteSource& file, std::int64_t offset, std::span<std::byte> dst) {
    const auto bytes = static_cast<std::int64_t>(dst.size());
    {
      TraceScope scope(options_.trace, "read", "read", worker.number);
      if (options_.trace != nullptr) {
        scope.arg("bytes", std::to_string(bytes));
        scope.arg("file", std::string(file.path()));
      }
      file.read(offset, dst);
    }
    ++worker.stats.requests;
    worker.stats.bytes_read += bytes;
    progress_.add(bytes);
  }

  const std::vector<Target>& targets(const Window& window) const { return plan_.reads[at(window.read)].targets; }
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

  void note_scratch() {
    const std::int64_t now = scratch_.load();
    for (std::int64_t peak = peak_scratch_.load(); now > peak && !peak_scratch_.compare_exchange_weak(peak, now);) {
    }
  }

  void add_stats(const LoadStats& stats) {
    const std::lock_guard<std::mutex> lock(stats_mutex_);
    stats_.bytes_read += stats.bytes_read;
    stats_.bytes_copied += stats.bytes_copied;
    stats_.requests += stats.requests;
    stats_.windows += stats.windows;
    stats_.decoded_pieces += stats.decoded_pieces;
    stats_.absent_pieces += stats.absent_pieces;
  }

  const Catalog& catalog_;
  const Plan& plan_;
  const ExecOptions& options_;
  ResidencySources residency_;  // outlives the files that it opens
  TracedSources sources_;
  FileCache files_;
  SlotBuffers slots_;
  WindowQueue queue_;
  ProgressMeter progress_;
  Failures failures_;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> scratch_{0};
  std::atomic<std::int64_t> peak_scratch_{0};
  std::mutex stats_mutex_;
  LoadStats stats_;
};

class ThreadsExecutor final : public Executor {
 public:
  Placement run(const Catalog& catalog, const Plan& plan, const ExecOptions& options) override {
    check_runnable(catalog, plan, options);
    return Load(catalog, plan, options).run();
  }
};

}  // namespace

extern const ExecutorEntry threads_executor;
const ExecutorEntry threads_executor{
    "threads",
    [] { return std::string(); },
    [](const Device& device) { return device.place.kind == PlaceKind::host; },
    [] { return std::unique_ptr<Executor>(std::make_unique<ThreadsExecutor>()); },
};

}  // namespace loadstone
