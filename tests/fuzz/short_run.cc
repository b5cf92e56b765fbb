// main() of a fuzzer without libFuzzer: the seeds as they are, then so many changed ones, always the same.
// `fuzzer RUNS SEED_FOLDER`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

Input read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void change(Input& input, const Input& other, std::mt19937& random) {
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : random() % n; };
  static constexpr std::string_view kTelling("0123456789-+,:*?[]{}()'\"\\/.xX\0\n\r\t \x7F\x80\xFF", 37);
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const auto at = input.begin() + static_cast<std::ptrdiff_t>(below(input.size()));
    const auto byte = static_cast<std::uint8_t>(kTelling[below(kTelling.size())]);
    switch (input.empty() ? 3 : below(6)) {
      case 0: *at = static_cast<std::uint8_t>(*at ^ (1U << below(8))); break;
      case 1: *at = byte; break;
      case 2:
        input.erase(at, at + static_cast<std::ptrdiff_t>(
                                 1 + below(std::min<std::size_t>(8, static_cast<std::size_t>(input.end() - at)))));
        break;
      case 3: input.insert(input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1)), byte); break;
      case 4: input.resize(below(input.size())); break;
      default:  // the beginning of this one, the end of another
        input.erase(at, input.end());
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size() + 1)), other.end());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::vector<Input> seeds{{}};
  if (std::filesystem::is_directory(argv[2])) {
    for (const auto& file : std::filesystem::directory_iterator(argv[2])) seeds.push_back(read(file.path()));
  }
  for (const Input& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  Input input;
  std::mt19937 random(1);
  const long runs = std::atol(argv[1]);
  for (long i = 0; i < runs; ++i) {
    input = seeds[random() % seeds.size()];
    change(input, seeds[random() % seeds.size()], random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%ld executions from %zu seeds, nothing found\n", runs, seeds.size() - 1);
  return 0;
}
