#include "loadstone/format/stems.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

constexpr std::size_t kMaxDigits = 18;  // fits in int64_t; longer runs are text, not numbers

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::vector<Run> digit_runs(std::string_view name) {
  std::vector<Run> out;
  for (std::size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < name.size() && is_digit(name[i])) ++i;
    if (i - begin <= kMaxDigits) out.push_back({begin, i});
  }
  return out;
}

std::int64_t number_at(std::string_view name, Run run) {
  std::int64_t value = 0;
  parse_int(name.substr(run.begin, run.end - run.begin), value);
  return value;
}

/// The key under which names equal but for the run meet; a NUL cannot be in a name.
std::string stem_key(const NumberedName& reading) {
  return cat(reading.prefix, '\0', reading.suffix);
}

}  // namespace

std::vector<NumberedName> readings_of(std::string_view name) {
  const std::vector<Run> runs = digit_runs(name);
  std::vector<NumberedName> out;
  const auto reading = [&](Run run) {
    NumberedName numbered;
    numbered.prefix = name.substr(0, run.begin);
    numbered.suffix = name.substr(run.end);
    numbered.digits = name.substr(run.begin, run.end - run.begin);
    numbered.number = number_at(name, run);
    return numbered;
  };
  for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
    if (name.substr(runs[i].end, runs[i + 1].begin - runs[i].end) != "-of-") continue;
    NumberedName numbered = reading(runs[i]);
    numbered.of_total = number_at(name, runs[i + 1]);
    return {numbered};
  }
  for (const Run run : runs) out.push_back(reading(run));
  return out;
}

std::string Stem::name_of(std::int64_t number) const {
  std::size_t width = 0;  // of zero-padded members: shard_9999 and shard_10000 follow shard_0000
  for (const Member& member : members) {
    if (member.digits > std::to_string(member.number).size()) width = std::max<std::size_t>(width, member.digits);
  }
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return cat(prefix, digits, suffix);
}

std::vector<Stem> find_stems(const std::vector<std::string_view>& names) {
  std::unordered_map<std::string, Stem> by_key;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (NumberedName& reading : readings_of(names[i])) {
      // Members of one -of-N set that disagree about N still meet: the total is left out of the key, checked later.
      std::string key = stem_key(reading);
      if (reading.of_total) {
        const std::size_t digits = std::string_view(reading.suffix).find_first_not_of("0123456789", 4);
        key = cat(reading.prefix, '\0', "-of-", '\0',
                  digits == std::string::npos ? "" : std::string_view(reading.suffix).substr(digits));
      }
      Stem& stem = by_key[std::move(key)];
      if (stem.members.empty()) {
        stem.prefix = std::move(reading.prefix);
        stem.suffix = std::move(reading.suffix);
        stem.of_total = reading.of_total.has_value();
      }
      stem.members.push_back(
          {i, reading.number, reading.of_total.value_or(-1), static_cast<std::uint8_t>(reading.digits.size())});
    }
  }
  std::vector<Stem> out;
  for (auto& [key, stem] : by_key) {
    if (stem.members.size() >= 2 || stem.of_total) out.push_back(std::move(stem));
  }
  for (Stem& stem : out) {
    std::sort(stem.members.begin(), stem.members.end(), [](const Stem::Member& a, const Stem::Member& b) {
      return std::tie(a.number, a.name) < std::tie(b.number, b.name);
    });
  }
  std::sort(out.begin(), out.end(), [](const Stem& a, const Stem& b) {
    if (a.members.size() != b.members.size()) return a.members.size() > b.members.size();
    return std::tie(a.prefix, a.suffix) < std::tie(b.prefix, b.suffix);
  });
  return out;
}

}  // namespace loadstone
