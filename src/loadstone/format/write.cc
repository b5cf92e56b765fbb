#include "loadstone/format/write.h"

#include <algorithm>
#include <random>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/format/sniff.h"
#include "loadstone/format/writers/shards.h"

namespace loadstone {

namespace {

constexpr std::int64_t kMaxShards = 10'000'000;

void check(const WriteOptions& options) {
  if (!options.dtype.whole_bytes() || options.dtype.lanes != 1) {
    throw usage_error(cat("cannot write elements of ", to_string(options.dtype), ", which fill no whole bytes"));
  }
  if (options.shards < 1 || options.shards > kMaxShards) {
    throw usage_error(cat("the number of shards is ", options.shards, ": expected 1 to ", kMaxShards));
  }
  if (options.shape.empty() && options.shards != 1) throw usage_error("a 0-d array has no axis 0 to cut into shards");
  std::int64_t product = options.dtype.itemsize();
  for (const std::int64_t extent : options.shape) {
    const auto next = checked_mul(product, std::max<std::int64_t>(extent, 1));
    if (extent < 0 || !next) {
      throw usage_error(cat("cannot write shape ", to_string(options.shape), ": ",
                            extent < 0 ? "it has a negative dimension" : "it has more than 2^63-1 bytes"));
    }
    product = *next;
  }
}

std::vector<std::int64_t> rows_of_shards(const WriteOptions& options) {
  const std::int64_t total = options.shape.empty() ? 1 : options.shape[0];
  std::vector<std::int64_t> rows;
  if (!options.uneven) {
    for (std::int64_t f = 0; f < options.shards; ++f) {
      rows.push_back(total / options.shards + (f < total % options.shards ? 1 : 0));
    }
    return rows;
  }
  // Cuts at random rows. mt19937_64 is the same everywhere; the standard's distributions are not.
  std::mt19937_64 random(options.seed);
  std::vector<std::int64_t> cuts{total};
  for (std::int64_t f = 1; f < options.shards; ++f) {
    cuts.push_back(static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(total) + 1)));
  }
  std::sort(cuts.begin(), cuts.end());
  std::int64_t begin = 0;
  for (const std::int64_t cut : cuts) {
    rows.push_back(cut - begin);
    begin = cut;
  }
  return rows;
}

}  // namespace

WriteReport write_dataset(const std::string& dir, const WriteOptions& options, const ThreadPool& pool) {
  ShardSet set;
  set.writer = &writer_named(options.format);
  check(options);
  set.storage = options.storage;
  set.arrays = {{options.name, options.dtype, options.shape}};
  check_writable(set);
  if (dir.empty()) throw usage_error("no directory to write to");
  WriteReport report;
  report.rows = rows_of_shards(options);
  set.names = shard_names(*set.writer, options.shards);
  for (std::int64_t f = 0; f < options.shards; ++f) {
    set.rows.push_back({report.rows[static_cast<std::size_t>(f)]});
    report.files.push_back(join_path(dir, set.names[static_cast<std::size_t>(f)]));
  }
  set.cancel = options.cancel;
  set.source = [&](int) -> BoxSource {
    return [&](std::size_t, const Box& box, std::span<std::byte> out) {
      made_up_box(options.dtype, options.seed, options.shape, box, out.data());
    };
  };
  Undo undo;
  make_folders(dir, undo);
  make_room(dir, options.replace);
  ProgressMeter meter(options.progress, "write", options.dtype.nbytes(num_elems(options.shape)));
  report.bytes = write_shards(dir, set, pool, meter, undo);
  meter.finish();
  undo.keep();
  return report;
}

}  // namespace loadstone
