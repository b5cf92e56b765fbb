#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/text.h"
#include "loadstone/exec/executor.h"
#include "loadstone/io/byte_source.h"
#include "loadstone/load.h"

namespace loadstone::cli {
namespace {

constexpr std::int64_t kWindowBytes = std::int64_t{4} << 20;

void add(Arguments& args, Options& o) {
  add_source_options(args, o);
  add_sharding_options(args, o);
  add_plan_options(args, o);
  args.text("--rounds", o.rounds, "N", "rounds, interleaved; the median counts (default 5)");
}

/// Share of the files' pages that the page cache holds; nullopt where the kernel does not say.
std::optional<double> cached_share(const Catalog& catalog) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::int64_t pages = 0, resident = 0;
  for (std::int64_t f = 0; f < catalog.files.size(); ++f) {
    const auto size = static_cast<std::size_t>(catalog.files.stamp(f).size_bytes);
    if (size == 0) continue;
    const int fd = ::open(catalog.files.path(f).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    if (mapped == MAP_FAILED) return std::nullopt;
    std::vector<unsigned char> bits((size + page - 1) / page);
    const int failed = ::mincore(mapped, size, bits.data());
    ::munmap(mapped, size);
    if (failed != 0) return std::nullopt;
    pages += static_cast<std::int64_t>(bits.size());
    resident += std::count_if(bits.begin(), bits.end(), [](unsigned char bit) { return (bit & 1U) != 0; });
  }
  if (pages == 0) return std::nullopt;
  return static_cast<double>(resident) / static_cast<double>(pages);
}

/// Reads all bytes of all files into `into`, one behind the other: what positional reads can do at best here.
class BareReads {
 public:
  explicit BareReads(const Catalog& catalog) {
    for (std::int64_t f = 0; f < catalog.files.size(); ++f) {
      const std::int64_t size = catalog.files.stamp(f).size_bytes;
      sources_.push_back(size > 0 ? pread_sources().open(catalog.files.path(f)) : nullptr);
      for (std::int64_t at = 0; at < size; at += kWindowBytes) {
        windows_.push_back({f, at, std::min(kWindowBytes, size - at), total_ + at});
      }
      total_ += size;
    }
  }
  std::int64_t total_bytes() const { return total_; }

  void run(std::byte* into, const ThreadPool& pool, CancelToken* cancel) const {
    pool.parallel_for(
        static_cast<std::int64_t>(windows_.size()),
        [&](std::int64_t i, int) {
          const Window& w = windows_[static_cast<std::size_t>(i)];
          sources_[static_cast<std::size_t>(w.file)]->read(w.offset_bytes,
                                                           {into + w.at, static_cast<std::size_t>(w.bytes)});
        },
        cancel);
  }

 private:
  struct Window {
    std::int64_t file, offset_bytes, bytes, at;
  };
  std::vector<std::unique_ptr<ByteSource>> sources_;
  std::vector<Window> windows_;
  std::int64_t total_ = 0;
};

/// Hands out the same, already touched memory every time.
class TouchedBuffers : public BufferProvider {
 public:
  View buffer(const Plan& plan, std::int32_t slot) override {
    const auto at = static_cast<std::size_t>(slot);
    if (views_.size() < plan.slots.size()) views_.resize(plan.slots.size());
    if (views_[at].data() == nullptr) {
      const Slot& wanted = plan.slots[at];
      views_[at] = View::allocate(wanted.shard.box.shape(), plan.arrays[static_cast<std::size_t>(wanted.array)].dtype,
                                  wanted.shard.device.place);
      if (views_[at].nbytes() > 0) std::memset(views_[at].data(), 1, static_cast<std::size_t>(views_[at].nbytes()));
    }
    return views_[at];
  }

 private:
  std::vector<View> views_;
};

struct Line {
  std::string name;
  std::string ceiling;  ///< the line it is measured against; "" for a ceiling
  std::int64_t bytes = 0;
  std::vector<double> seconds;

  double median_rate() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const double median = sorted[sorted.size() / 2];
    return median > 0 ? static_cast<double>(bytes) / median : 0;
  }
  double rate(double second) const { return second > 0 ? static_cast<double>(bytes) / second : 0; }
  double slowest() const { return rate(*std::max_element(seconds.begin(), seconds.end())); }
  double fastest() const { return rate(*std::min_element(seconds.begin(), seconds.end())); }
};

template <typename Work>
double timed(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

void report(Session& session, const std::vector<Line>& lines) {
  session.line(padded("", 26) + padded("median", 13) + padded("slowest", 13) + padded("fastest", 13) + "of ceiling");
  Json results = Json::array();
  for (const Line& line : lines) {
    Json result{{"name", line.name},         {"bytes", line.bytes},       {"bytes_per_second", line.median_rate()},
                {"slowest", line.slowest()}, {"fastest", line.fastest()}, {"seconds", line.seconds},
                {"ceiling", nullptr},        {"of_ceiling", nullptr}};
    std::string words = padded(line.name, 26) + padded(format_rate(line.median_rate()), 13) +
                        padded(format_rate(line.slowest()), 13) + padded(format_rate(line.fastest()), 13);
    for (const Line& other : lines) {
      if (other.name != line.ceiling || other.median_rate() <= 0) continue;
      const double share = line.median_rate() / other.median_rate();
      result["ceiling"] = other.name;
      result["of_ceiling"] = share;
      words += format_fixed(share, 2);
    }
    while (words.ends_with(' ')) words.pop_back();
    session.line(words);
    results.push_back(std::move(result));
  }
  session.json["results"] = std::move(results);
}

int run(Session& session) {
  const Options& o = session.options;
  const Placing placing(o);
  LoadOptions options;
  options.plan = plan_options(o);
  options.threads = thread_count(o);
  options.cancel = session.cancel;
  const std::int64_t rounds = count_or(o.rounds, "--rounds", 1, 5);
  const Catalog catalog = open_catalog(session);
  const std::vector<ArrayRequest> asked = requests(o, placing, catalog);
  const Plan plan = make_plan(catalog, asked, options.plan);

  const BareReads bare(catalog);
  const std::int64_t pages_free = ::sysconf(_SC_AVPHYS_PAGES);
  const auto once = checked_add(bare.total_bytes(), plan.totals.bytes_placed);
  const auto needed = once ? checked_mul(*once, 2) : std::nullopt;
  const std::int64_t physical = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  if (!needed || *needed > physical / 2) {
    throw Error(ErrorKind::system,
                cat("bench holds the data about four times in memory: needs ", needed ? cat(*needed) : "more than 2^63",
                    " bytes, half of the memory is ", physical / 2));
  }
  const std::optional<double> cached = cached_share(catalog);
  const ThreadPool pool(options.threads);

  // Ours and the ceiling by turns, so that both meet the same machine. The first round warms up and is not counted.
  const std::shared_ptr<Memory> touched = Memory::allocate_host(bare.total_bytes());
  if (touched->base() != nullptr) std::memset(touched->base(), 1, static_cast<std::size_t>(touched->bytes()));
  TouchedBuffers buffers;
  std::vector<Line> lines{{"pread, touched pages", "", bare.total_bytes(), {}},
                          {"loadstone, touched pages", "pread, touched pages", plan.totals.bytes_needed, {}},
                          {"pread, fresh pages", "", bare.total_bytes(), {}},
                          {"loadstone, fresh pages", "pread, fresh pages", plan.totals.bytes_needed, {}}};
  for (std::int64_t round = 0; round <= rounds; ++round) {
    throw_if_requested(session.cancel);
    LoadOptions into_touched = options;
    into_touched.buffers = &buffers;
    const std::array<double, 4> seconds{
        timed([&] { bare.run(touched->base(), pool, session.cancel); }),
        timed([&] { (void)load(catalog, asked, into_touched); }),
        timed([&] {
          const std::shared_ptr<Memory> fresh = Memory::allocate_host(bare.total_bytes());
          bare.run(fresh->base(), pool, session.cancel);
        }),
        timed([&] { (void)load(catalog, asked, options); }),
    };
    for (std::size_t i = 0; i < lines.size() && round > 0; ++i) lines[i].seconds.push_back(seconds[i]);
  }

  session.json["bytes"] = plan.totals.bytes_needed;
  session.json["files"] = catalog.files.size();
  session.json["threads"] = options.threads;
  session.json["rounds"] = rounds;
  session.json["cached_before"] = cached ? Json(*cached) : Json();
  session.json["memory_free_bytes"] = pages_free * ::sysconf(_SC_PAGESIZE);
  session.line(cat(format_bytes(plan.totals.bytes_needed), " in ", catalog.files.size(), " files, ", options.threads,
                   " threads, median of ", rounds, "; page cache held ",
                   cached ? cat(format_fixed(100 * *cached, 0), " %") : "an unknown share",
                   " of the files before, all after the first round"));
  report(session, lines);
  return kGood;
}

}  // namespace

extern const Verb bench_verb;
const Verb bench_verb{"bench", "Measure what this machine can do with these files, and what we do",
                      "  loadstone bench shards/\n"
                      "  loadstone bench shards/ --mesh x=4 --spec -,x --rounds 9 --json\n",
                      add, run};

}  // namespace loadstone::cli
