// How fast is the placement digest on one core? Goals: 20 GB/s one lane, 10 GB/s two, from cache and from memory.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "loadstone/verify/pd61.h"

namespace loadstone {
namespace {

void digest(benchmark::State& state, const Shape& shape, const Box& box, int lanes) {
  std::vector<std::byte> data(static_cast<std::size_t>(num_elems(shape)) * 4);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(37 * i + 11);
  Dims strides = c_strides(shape);
  for (std::int64_t& s : strides) s *= 4;
  const Pd61 rule(shape, dtypes::kFloat32, {}, lanes);
  const std::byte* first = data.data() + 4 * linear_index(box.begin, Box::whole(shape));
  for (auto _ : state) benchmark::DoNotOptimize(rule.tile(box, first, strides));
  state.SetBytesProcessed(state.iterations() * box.num_elems() * 4);
  state.SetLabel(pd61_backend());
}

void whole(benchmark::State& state) {
  const Shape shape{state.range(0) / 16384, 4096};
  digest(state, shape, Box::whole(shape), static_cast<int>(state.range(1)));
}

// Runs of so many bytes at every second place of 4 KiB rows.
void short_runs(benchmark::State& state) {
  const std::int64_t elems = state.range(0) / 4;
  const Shape shape{1024 * 1024 / (2 * elems), 2 * elems};
  digest(state, shape, {{0, 0}, {shape[0], elems}}, static_cast<int>(state.range(1)));
}

// A block of columns, so many bytes of each 16 KiB row.
void columns(benchmark::State& state) {
  const Shape shape{4096, 4096};
  digest(state, shape, {{0, 512}, {4096, 512 + state.range(0) / 4}}, static_cast<int>(state.range(1)));
}

BENCHMARK(whole)->ArgNames({"bytes", "lanes"})->ArgsProduct({{128 << 10, 4 << 20, 256 << 20}, {1, 2}});
BENCHMARK(short_runs)->ArgNames({"run", "lanes"})->ArgsProduct({{4, 16, 64, 1024}, {1, 2}});
BENCHMARK(columns)->ArgNames({"run", "lanes"})->ArgsProduct({{64, 1024, 4096}, {1, 2}});

}  // namespace
}  // namespace loadstone

BENCHMARK_MAIN();
