#include "loadstone/format/members.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"

namespace loadstone {

namespace {

constexpr std::size_t kShown = 5;

bool has_extension(const Format& format, std::string_view path) {
  const std::string extension = extension_of(path);
  return std::find(format.extensions.begin(), format.extensions.end(), extension) != format.extensions.end();
}

/// The self-describing format that a name belongs to, or nullptr.
const Format* format_by_name(std::string_view path) {
  for (const Format* format : all_formats()) {
    if (format->name != "raw" && has_extension(*format, path)) return format;
  }
  return nullptr;
}

constexpr std::string_view kHowRaw = "raw bytes need --raw with --dtype and --row-shape, or a shard_meta.json";

class Chooser {
 public:
  Chooser(const Candidates& all, Probes& probes, const DiscoverOptions& options, const Format* forced,
          const Sidecars& sidecars)
      : all_(all), probes_(probes), options_(options), forced_(forced), sidecars_(sidecars) {}

  Members choose() {
    find_set_format();
    if (set_ == nullptr) read_unknown_as_raw();
    Members out;
    std::vector<Error> faults;
    for (std::size_t s = 0; s < all_.segments.size(); ++s) {
      out.of_segment.emplace_back();
      for (std::size_t i = all_.first[s]; i < all_.first[s + 1]; ++i) {
        sort_out(s, i, out, faults);
      }
    }
    if (!faults.empty()) throw_faults(faults);
    for (std::size_t s = 0; s < all_.segments.size(); ++s) {
      if (out.of_segment[s].empty()) refuse_empty(all_.segments[s], out.left_out);
    }
    return out;
  }

 private:
  const Probe& probe(std::size_t i) const { return probes_.files[i]; }
  const Format* format_of(std::size_t i) const {
    return probe(i).format < 0 ? nullptr : all_formats()[static_cast<std::size_t>(probe(i).format)];
  }
  const Sniffed& odd(std::size_t i) const {
    static const Sniffed kNothing;
    const auto it = probes_.odd.find(i);
    return it == probes_.odd.end() ? kNothing : it->second;
  }

  /// The set's format: the one asked for, else that of the first recognised file, else that of the first name.
  void find_set_format() {
    set_ = forced_;
    for (std::size_t i = 0; set_ == nullptr && i < all_.paths.size(); ++i) {
      set_ = format_of(i);
      if (set_ != nullptr) example_ = i;
    }
    for (std::size_t i = 0; set_ == nullptr && i < all_.paths.size(); ++i) set_ = format_by_name(all_.paths[i]);
  }

  /// Nothing is recognised and nothing is called as a known format: raw, if a sidecar says how.
  void read_unknown_as_raw() {
    for (std::size_t s = 0; s < all_.segments.size(); ++s) {
      const std::set<std::string> wanted = raw_names(s);
      for (std::size_t i = all_.first[s]; i < all_.first[s + 1]; ++i) {
        if (probe(i).state != Probe::State::unknown || !wanted.contains(all_.paths[i])) continue;
        const ReadHints hints = hints_for(all_.paths[i], options_, sidecars_);
        if (!described(all_.paths[i]) || !enough_for_raw(hints)) continue;
        reread_as_raw(probes_, i, all_.paths[i], hints);
        set_ = find_format("raw");
      }
    }
  }

  bool described(const std::string& path) const {
    const auto it = sidecars_.find(folder_of(path));
    if (it == sidecars_.end()) return false;
    if (it->second.fault) throw Error(*it->second.fault);  // needed: nothing else says what these bytes are
    return it->second.sidecar.has_value();
  }

  std::set<std::string> raw_names(std::size_t s) const {
    std::vector<std::string> paths;
    for (std::size_t i = all_.first[s]; i < all_.first[s + 1]; ++i) {
      if (probe(i).state == Probe::State::unknown && described(all_.paths[i])) paths.push_back(all_.paths[i]);
    }
    if (paths.empty()) return {};
    std::vector<std::string> left_out;
    if (all_.segments[s].kind == Segment::Kind::folder) {
      paths = raw_files(all_.segments[s].origin, std::move(paths), left_out);
    }
    return {paths.begin(), paths.end()};
  }

  void sort_out(std::size_t s, std::size_t i, Members& out, std::vector<Error>& faults) const {
    const std::string& path = all_.paths[i];
    const bool named = all_.segments[s].kind != Segment::Kind::folder;
    const bool called_so = set_ != nullptr && has_extension(*set_, path);
    const auto leave_out = [&](std::string_view why) { out.left_out.push_back(cat(in_quotes(path), " (", why, ")")); };
    switch (probe(i).state) {
      case Probe::State::data:
        if (format_of(i) == set_ || options_.mixed_formats) {
          out.of_segment[s].push_back(i);
        } else {
          faults.push_back(two_formats(path, format_of(i)->name));
        }
        return;
      case Probe::State::failed: {
        const Error& fault = probes_.faults.at(i);
        if (named || called_so || format_of(i) != nullptr) {
          faults.push_back(fault);
        } else {
          leave_out(fault.message());
        }
        return;
      }
      case Probe::State::not_file:
        if (!odd(i).data_format.empty() && forced_ != nullptr && named) {
          faults.push_back(other_data(path, odd(i)));
        } else if (named || called_so) {
          faults.push_back(
              file_error(path, cat("is ", odd(i).what, ", not a regular file"), "a regular file", odd(i).what));
        } else {
          leave_out(odd(i).what);
        }
        return;
      case Probe::State::unknown:
        if (called_so && set_->name != "raw") {
          faults.push_back(not_what_it_is_called(path, odd(i)));
        } else if (!odd(i).data_format.empty() && forced_ != nullptr && named) {
          faults.push_back(other_data(path, odd(i)));
        } else if (named) {
          faults.push_back(not_recognised(path, odd(i)));
        } else {
          leave_out(odd(i).what);
        }
        return;
    }
  }

  Error two_formats(const std::string& path, std::string_view format) const {
    return file_error(path,
                      cat("is ", format, ", but ", in_quotes(all_.paths[example_]), " is ", set_->name,
                          ": two formats in one set (--mixed-formats allows them, --format names one)"),
                      std::string(set_->name), std::string(format));
  }

  /// Data of another format than the one that --format names.
  Error other_data(const std::string& path, const Sniffed& odd) const {
    return file_error(path, cat("not a file of format ", forced_->name, " as --format asks: it is ", odd.what),
                      std::string(forced_->name), odd.what);
  }

  Error not_what_it_is_called(const std::string& path, const Sniffed& odd) const {
    return file_error(path, cat("not an ", set_->name, " file (bad magic): it is ", odd.what), std::string(set_->name),
                      odd.what);
  }

  Error not_recognised(const std::string& path, const Sniffed& odd) const {
    const std::string found = cat(" (it is ", odd.what, ")");
    if (set_ != nullptr) {
      return file_error(path, cat("not an ", set_->name, " file", found, ", unlike the others of the set"),
                        std::string(set_->name), odd.what);
    }
    return file_error(path, cat("its format is not recognised", found, "; ", kHowRaw), "a known format", odd.what);
  }

  [[noreturn]] void refuse_empty(const Segment& segment, const std::vector<std::string>& left_out) const {
    const std::string wanted = set_ != nullptr ? cat("no file of format ", set_->name) : std::string("no data file");
    const std::string seen = left_out.empty() ? "it is empty" : cat("left out: ", join_first(left_out, kShown));
    throw Error(ErrorKind::system,
                cat(in_quotes(segment.origin), ": no match: ", wanted, " in it; ", seen,
                    left_out.empty() ? "" : cat("; ", kHowRaw)),
                {segment.origin, "at least one data file", "none", ENOENT});
  }

  const Candidates& all_;
  Probes& probes_;
  const DiscoverOptions& options_;
  const Format* forced_;
  const Sidecars& sidecars_;
  const Format* set_ = nullptr;
  std::size_t example_ = 0;  ///< a file of the set's format
};

}  // namespace

Candidates flatten(std::vector<Segment> segments) {
  Candidates out;
  out.segments = std::move(segments);
  out.first.push_back(0);
  for (Segment& segment : out.segments) {
    std::move(segment.paths.begin(), segment.paths.end(), std::back_inserter(out.paths));
    segment.paths = {};
    out.first.push_back(out.paths.size());
  }
  return out;
}

Members choose_members(const Candidates& all, Probes& probes, const DiscoverOptions& options, const Format* forced,
                       const Sidecars& sidecars) {
  return Chooser(all, probes, options, forced, sidecars).choose();
}

std::vector<std::string> raw_files(const std::string& folder, std::vector<std::string> paths,
                                   std::vector<std::string>& left_out) {
  const Format& raw = *find_format("raw");
  const auto split_off = [&](auto keep, std::string_view why) {
    const auto end = std::stable_partition(paths.begin(), paths.end(), keep);
    for (auto it = end; it != paths.end(); ++it) left_out.push_back(cat(in_quotes(*it), " (", why, ")"));
    paths.erase(end, paths.end());
  };
  if (std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return has_extension(raw, path); })) {
    split_off([&](const std::string& path) { return has_extension(raw, path); }, "not called .bin, .raw or .dat");
    return paths;
  }
  split_off(
      [](const std::string& path) {
        static constexpr std::array<std::string_view, 12> kNotRaw{".json", ".md",  ".txt", ".yaml", ".yml", ".toml",
                                                                  ".log",  ".csv", ".py",  ".sh",   ".npy", ".html"};
        const std::string extension = extension_of(path);
        return std::find(kNotRaw.begin(), kNotRaw.end(), extension) == kNotRaw.end() && base_name(path) != "README" &&
               base_name(path) != "LICENSE" && base_name(path) != "_SUCCESS";
      },
      "not raw data by its name");
  std::set<std::string> extensions;
  for (const std::string& path : paths) extensions.insert(extension_of(path));
  if (extensions.size() > 1) {
    throw file_usage_error(folder, cat("cannot tell which files are raw data: found the extensions ",
                                       join_first({extensions.begin(), extensions.end()}, kShown),
                                       "; name them by a pattern, as in 'DIR/*.bin'"));
  }
  return paths;
}

}  // namespace loadstone
