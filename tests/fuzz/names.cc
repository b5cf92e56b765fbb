// A pattern on the first line, names on the others: patterns, natural order, numbering.
#include <string>
#include <vector>

#include "loadstone/format/names.h"
#include "loadstone/format/pattern.h"
#include "tests/fuzz/fuzz.h"

using namespace loadstone;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 512) return 0;
  std::vector<std::string> lines(1);
  for (const char c : fuzz::text_of(data, size)) {
    if (c == '\n') {
      lines.emplace_back();
    } else if (c != '\0') {
      lines.back() += c;
    }
  }
  const std::string pattern = lines.front();
  lines.erase(lines.begin());
  std::erase(lines, "");
  has_magic(pattern);
  for (const std::string& name : lines) {
    match_component(pattern, name);
    fuzz::require(match_component("*", name) == (name.front() != '.'));
    fuzz::require(!natural_less(name, name));
    fuzz::require(natural_less(name, pattern) + natural_less(pattern, name) == (name != pattern));
  }
  if (lines.empty()) return 0;
  for (const bool explicit_list : {false, true}) {
    fuzz::only_blames_input([&] {
      const FileOrder order = order_files(lines, {.explicit_list = explicit_list, .allow_gaps = true});
      fuzz::require(order.order.size() == lines.size());
    });
  }
  return 0;
}
