#include "loadstone/format/names.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/sniff.h"
#include "loadstone/format/stems.h"

namespace loadstone {

namespace {

constexpr std::size_t kShown = 5;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Length of the digit run at the front and how many of it are leading zeros.
std::pair<std::size_t, std::size_t> run_at(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  std::size_t zeros = 0;
  while (zeros < n && text[zeros] == '0') ++zeros;
  return {n, zeros};
}

/// What one call of order_files works on.
struct Names {
  const std::vector<std::string>& paths;
  std::vector<std::string_view> bases;

  std::string shown(const Stem::Member& member) const { return in_quotes(paths[member.name]); }
};

/// First numbers that a sequence lacks, by the ranges between its members: at most kShown, and how many in all.
struct Missing {
  std::vector<std::int64_t> first;
  std::int64_t count = 0;

  void add_range(std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    count += end - begin;
    for (std::int64_t n = begin; n < end && first.size() < kShown; ++n) first.push_back(n);
  }
};

std::string list_missing(const Stem& stem, const Missing& missing) {
  std::vector<std::string> names;
  for (const std::int64_t n : missing.first) names.push_back(in_quotes(stem.name_of(n)));
  const std::int64_t more = missing.count - static_cast<std::int64_t>(names.size());
  return more > 0 ? cat(join(names, ", "), " and ", more, " more") : join(names, ", ");
}

Missing missing_between(const Stem& stem, std::int64_t first, std::int64_t end) {
  Missing missing;
  std::int64_t next = first;
  for (const Stem::Member& member : stem.members) {
    missing.add_range(next, std::min(member.number, end));
    next = member.number + 1;
  }
  missing.add_range(next, end);
  return missing;
}

void report_missing(const Names& names, const Stem& stem, const Missing& missing, std::string_view what,
                    const OrderRules& rules, FileOrder& out) {
  if (missing.count == 0) return;
  const std::string text = cat(what, ": missing ", list_missing(stem, missing));
  if (rules.allow_gaps) {
    out.notes.push_back(cat(text, " (gaps are allowed)"));
    return;
  }
  const std::string_view folder = folder_of(names.paths[stem.members.front().name]);
  const std::string first = join_path(folder, stem.name_of(missing.first.front()));
  throw data_error(cat(in_quotes(first), ": ", text, "; --allow-gaps accepts holes and any start"),
                   {first, cat("files numbered without a hole"), cat(missing.count, " missing"), 0});
}

void check_equal_numbers(const Names& names, const Stem& stem) {
  for (std::size_t i = 1; i < stem.members.size(); ++i) {
    const Stem::Member& a = stem.members[i - 1];
    const Stem::Member& b = stem.members[i];
    if (a.number != b.number) continue;
    throw file_error(names.paths[b.name],
                     cat("has the same number ", b.number, " as ", names.shown(a), ": the order is not defined"),
                     "one file for each number", cat("two files numbered ", b.number));
  }
}

/// -of-N: one total, numbers in 0..N-1 or 1..N, all there.
void check_total(const Names& names, const Stem& stem, const OrderRules& rules, FileOrder& out) {
  const Stem::Member& first = stem.members.front();
  const std::int64_t total = first.total;
  for (const Stem::Member& member : stem.members) {
    if (member.total != total) {
      throw file_error(names.paths[member.name],
                       cat("says of ", member.total, ", but ", names.shown(first), " says of ", total),
                       cat("of ", total), cat("of ", member.total));
    }
  }
  const Stem::Member& last = stem.members.back();
  const bool zero_based = first.number == 0;
  if (last.number > total || (zero_based && last.number == total)) {
    throw file_error(
        names.paths[last.name],
        cat("number ", last.number, " does not fit a set of ", total, " numbered from ", zero_based ? 0 : 1),
        cat("at most ", zero_based ? total - 1 : total), cat(last.number));
  }
  const auto have = static_cast<std::int64_t>(stem.members.size());
  if (have == total) {
    out.complete_by_name = true;
    return;
  }
  const std::string what = cat("the set is incomplete: expected ", total, " files, found ", have);
  // When neither 0 nor N is there, the numbering may start at either: the inner holes are certain, and one end.
  const bool unclear = !zero_based && last.number != total;
  const Missing missing = unclear ? missing_between(stem, 0, total + 1)
                                  : missing_between(stem, zero_based ? 0 : 1, zero_based ? total : total + 1);
  report_missing(names, stem, missing, unclear ? cat(what, " (numbered from 0 or from 1)") : what, rules, out);
}

void check_sequence(const Names& names, const Stem& stem, const OrderRules& rules, FileOrder& out) {
  const std::int64_t first = stem.members.front().number;
  const std::int64_t end = stem.members.back().number;
  report_missing(names, stem, missing_between(stem, first <= 1 ? first : 0, end), "the numbering has a hole", rules,
                 out);
}

/// Words that people and tools put behind a copied file's name: "_backup", " (1)", ".bak".
bool looks_like_copy(std::string_view inserted) {
  if (inserted.empty() || is_digit(inserted.front())) return false;
  std::string lower;
  for (const char c : inserted) lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  if (lower.front() >= 'a' && lower.front() <= 'z') return false;
  static constexpr std::array<std::string_view, 7> kWords{"backup", "copy", "bak", "orig", "old", "(1)", "(2)"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

/// The name that `base` is a marked copy of, if it is among `known`; else "".
std::string copied_from(std::string_view base, const std::unordered_set<std::string_view>& known) {
  const std::size_t dot = base.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view plain = base.substr(0, dot);
  const std::string_view extension = base.substr(dot);
  if (looks_like_copy(extension) && known.contains(plain)) return std::string(plain);
  for (std::size_t cut = 1; cut < plain.size(); ++cut) {
    if (!is_digit(plain[cut - 1]) || !looks_like_copy(plain.substr(cut))) continue;
    std::string original = cat(plain.substr(0, cut), extension);
    if (known.contains(original)) return original;
  }
  return {};
}

/// One shard and its backup make no stem of two members, but still a stray.
void check_copies(const Names& names) {
  const std::unordered_set<std::string_view> known(names.bases.begin(), names.bases.end());
  for (std::size_t i = 0; i < names.bases.size(); ++i) {
    const std::string original = copied_from(names.bases[i], known);
    if (original.empty()) continue;
    throw file_error(names.paths[i], cat("is a stray: it looks like a copy of ", in_quotes(original)),
                     "no copies beside the files", std::string(names.bases[i]));
  }
}

void check_strays(const Names& names, const Stem& stem) {
  if (stem.members.size() == names.bases.size()) return;
  std::vector<bool> member(names.bases.size(), false);
  for (const Stem::Member& m : stem.members) member[m.name] = true;
  std::vector<std::string> strays;
  std::string first;
  for (std::size_t i = 0; i < member.size(); ++i) {
    if (member[i]) continue;
    if (first.empty()) first = names.paths[i];
    strays.push_back(in_quotes(names.paths[i]));
  }
  throw data_error(
      cat(join_first(strays, kShown), strays.size() == 1 ? " is a stray" : " are strays", ": not numbered like the ",
          stem.members.size(), " files ", in_quotes(stem.pattern()), " beside; move it away, or name the files"),
      {first, stem.pattern(), first, 0});
}

[[noreturn]] void refuse_two_stems(const Names& names, const Stem& a, const Stem& b) {
  const auto shown = [&](const Stem& stem) {
    const std::string pattern = join_path(folder_of(names.paths[stem.members.front().name]), stem.pattern());
    return cat(in_quotes(pattern), " (", stem.members.size(), " files, first ", names.shown(stem.members.front()), ")");
  };
  throw usage_error(cat("two numbered sets in one data set: ", shown(a), " and ", shown(b),
                        "; name one of them by a narrower pattern, or give the order with --files-from"),
                    {names.paths[b.members.front().name], a.pattern(), b.pattern(), 0});
}

std::string trimmed_stem(std::string_view prefix) {
  while (!prefix.empty() && std::string_view("-_. ").find(prefix.back()) != std::string_view::npos) {
    prefix.remove_suffix(1);
  }
  return std::string(prefix);
}

std::string folder_key(std::string_view path) {
  std::string out;
  for (const std::string& part : split(folder_of(path), '/')) {
    if (part != "." && !part.empty()) out += cat('/', part);
  }
  return path.starts_with('/') ? cat('/', out) : out;
}

/// Splits the names by folder when a base name occurs in two of them: then each folder numbers for itself.
std::vector<std::vector<std::size_t>> by_folder(const Names& names) {
  std::unordered_set<std::string_view> seen;
  bool repeated = false;
  for (const std::string_view base : names.bases) repeated = !seen.insert(base).second || repeated;
  std::vector<std::vector<std::size_t>> out;
  if (!repeated) {
    out.emplace_back(names.bases.size());
    std::iota(out.back().begin(), out.back().end(), std::size_t{0});
    return out;
  }
  std::unordered_map<std::string, std::size_t> folder;
  for (std::size_t i = 0; i < names.paths.size(); ++i) {
    const auto [it, fresh] = folder.emplace(folder_key(names.paths[i]), out.size());
    if (fresh) out.emplace_back();
    out[it->second].push_back(i);
  }
  return out;
}

/// Stems of each folder, members as indices into all names.
std::vector<Stem> stems_of(const Names& names) {
  std::vector<Stem> out;
  for (const std::vector<std::size_t>& group : by_folder(names)) {
    std::vector<std::string_view> bases;
    for (const std::size_t i : group) bases.push_back(names.bases[i]);
    for (Stem& stem : find_stems(bases)) {
      for (Stem::Member& member : stem.members) member.name = group[member.name];
      out.push_back(std::move(stem));
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Stem& a, const Stem& b) { return a.members.size() > b.members.size(); });
  return out;
}

void refuse_duplicates(const Names& names) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& path : names.paths) {
    if (!seen.insert(path).second) throw file_usage_error(path, "is listed twice", "each file once", "listed twice");
  }
}

/// A list that a shell expanded: numbers of one stem that do not ascend.
void check_ascending(const Names& names, const Stem& stem) {
  std::vector<Stem::Member> listed = stem.members;
  std::sort(listed.begin(), listed.end(), [](const Stem::Member& a, const Stem::Member& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < listed.size(); ++i) {
    const Stem::Member& a = listed[i - 1];
    const Stem::Member& b = listed[i];
    if (a.number < b.number) continue;
    if (a.number == b.number) {
      throw file_usage_error(names.paths[b.name],
                             cat("number ", b.number, " is listed twice, the first time as ", names.shown(a)),
                             "each number once", "listed twice");
    }
    throw file_usage_error(
        names.paths[b.name],
        cat("the list is not in ascending order: number ", b.number, " comes after ", a.number, " of ", names.shown(a),
            "; quote the pattern so that the shell does not expand it, or keep this "
            "order with --keep-order"),
        cat("a number above ", a.number), cat(b.number));
  }
}

FileOrder order_list(const Names& names, const OrderRules& rules) {
  FileOrder out;
  out.order.resize(names.paths.size());
  std::iota(out.order.begin(), out.order.end(), std::size_t{0});
  if (!rules.keep_order) refuse_duplicates(names);
  const std::vector<Stem> stems = stems_of(names);
  for (const Stem& stem : stems) {
    if (!rules.keep_order) check_ascending(names, stem);
  }
  if (stems.empty() || stems.front().members.size() != names.paths.size()) return out;
  const Stem& stem = stems.front();
  out.stem = trimmed_stem(stem.prefix);
  if (!stem.of_total) return out;
  std::set<std::int64_t> numbers;
  for (const Stem::Member& member : stem.members) numbers.insert(member.number);
  const auto have = static_cast<std::int64_t>(numbers.size());
  const std::int64_t total = stem.members.front().total;
  const bool one_total = std::all_of(stem.members.begin(), stem.members.end(),
                                     [&](const Stem::Member& member) { return member.total == total; });
  out.complete_by_name =
      one_total && have == total && *numbers.rbegin() - *numbers.begin() == total - 1 && *numbers.begin() <= 1;
  if (!out.complete_by_name) {
    out.notes.push_back(
        cat("the list holds ", have, " of the ", total, " files that ", in_quotes(stem.pattern()), " names"));
  }
  return out;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto [n, zeros_a] = run_at(a.substr(i));
      const auto [m, zeros_b] = run_at(b.substr(j));
      const std::string_view value_a = a.substr(i + zeros_a, n - zeros_a);
      const std::string_view value_b = b.substr(j + zeros_b, m - zeros_b);
      if (value_a.size() != value_b.size()) return value_a.size() < value_b.size();
      if (value_a != value_b) return value_a < value_b;
      i += n;
      j += m;
      continue;
    }
    if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    ++i;
    ++j;
  }
  if (i < a.size() || j < b.size()) return i >= a.size();
  return a < b;
}

FileOrder order_files(const std::vector<std::string>& paths, const OrderRules& rules) {
  Names names{paths, {}};
  names.bases.reserve(paths.size());
  for (const std::string& path : paths) names.bases.push_back(base_name(path));
  if (rules.explicit_list) return order_list(names, rules);
  refuse_duplicates(names);
  FileOrder out;
  const std::vector<Stem> stems = stems_of(names);
  if (stems.size() >= 2) refuse_two_stems(names, stems[0], stems[1]);
  if (stems.empty()) {
    check_copies(names);
    out.order.resize(paths.size());
    std::iota(out.order.begin(), out.order.end(), std::size_t{0});
    std::sort(out.order.begin(), out.order.end(),
              [&](std::size_t a, std::size_t b) { return natural_less(paths[a], paths[b]); });
    return out;
  }
  const Stem& stem = stems.front();
  check_strays(names, stem);
  check_equal_numbers(names, stem);
  if (stem.of_total) {
    check_total(names, stem, rules, out);
  } else {
    check_sequence(names, stem, rules, out);
  }
  out.stem = trimmed_stem(stem.prefix);
  out.order.reserve(stem.members.size());
  for (const Stem::Member& member : stem.members) out.order.push_back(member.name);
  return out;
}

}  // namespace loadstone
