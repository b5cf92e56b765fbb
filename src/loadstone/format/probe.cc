#include "loadstone/format/probe.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/gather.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

constexpr std::int64_t kHeadBytes = 256;  // what Format::recognise is shown
constexpr std::int64_t kChunk = 64;       // files a worker takes at a time

/// Serves the bytes already read for recognition, so that a header costs one read in the usual case; counts the rest.
class HeadSource final : public ByteSource {
 public:
  HeadSource(ByteSource& source, IoCounters& counters) : source_(source), counters_(counters) {
    head_.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(source.stamp().size_bytes, 0, kHeadBytes)));
    if (!head_.empty()) fetch(0, head_);
  }
  std::span<const std::byte> head() const { return head_; }

  void read(std::int64_t offset_bytes, std::span<std::byte> dst) override {
    const auto have = static_cast<std::int64_t>(head_.size());
    if (offset_bytes >= 0 && offset_bytes < have) {
      const std::size_t n = std::min(dst.size(), static_cast<std::size_t>(have - offset_bytes));
      std::memcpy(dst.data(), head_.data() + offset_bytes, n);
      dst = dst.subspan(n);
      offset_bytes += static_cast<std::int64_t>(n);
    }
    if (!dst.empty()) fetch(offset_bytes, dst);
  }
  FileStamp stamp() const override { return source_.stamp(); }
  std::string_view path() const override { return source_.path(); }

 private:
  void fetch(std::int64_t offset_bytes, std::span<std::byte> dst) {
    source_.read(offset_bytes, dst);
    ++counters_.read_calls;
    counters_.bytes_read += static_cast<std::int64_t>(dst.size());
  }

  ByteSource& source_;
  IoCounters& counters_;
  std::vector<std::byte> head_;
};

/// Counts what a store's discovery costs.
class CountingFactory final : public ByteSourceFactory {
 public:
  CountingFactory(ByteSourceFactory& sources, IoCounters& counters) : sources_(sources), counters_(counters) {}
  std::unique_ptr<ByteSource> open(const std::string& path) override {
    auto source = sources_.open(path);
    ++counters_.opens;
    return std::make_unique<Counted>(std::move(source), counters_);
  }

 private:
  class Counted final : public ByteSource {
   public:
    Counted(std::unique_ptr<ByteSource> source, IoCounters& counters)
        : source_(std::move(source)), counters_(counters) {}
    void read(std::int64_t offset_bytes, std::span<std::byte> dst) override {
      source_->read(offset_bytes, dst);
      ++counters_.read_calls;
      counters_.bytes_read += static_cast<std::int64_t>(dst.size());
    }
    FileStamp stamp() const override { return source_->stamp(); }
    std::string_view path() const override { return source_->path(); }

   private:
    std::unique_ptr<ByteSource> source_;
    IoCounters& counters_;
  };

  ByteSourceFactory& sources_;
  IoCounters& counters_;
};

/// A file of which only the size is needed: raw.
class StampSource final : public ByteSource {
 public:
  StampSource(std::string_view path, FileStamp stamp) : path_(path), stamp_(stamp) {}
  void read(std::int64_t, std::span<std::byte>) override {
    throw internal_error("a raw header was read from the file's bytes");
  }
  FileStamp stamp() const override { return stamp_; }
  std::string_view path() const override { return path_; }

 private:
  std::string_view path_;
  FileStamp stamp_;
};

/// Why stat failed: a link that leads nowhere is named as such.
Error stat_error(int failed, const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t n = failed == ENOENT ? ::readlink(path.c_str(), target.data(), target.size()) : -1;
  if (n < 0) return errno_error(failed, path, "cannot open");
  return errno_error(failed, path,
                     cat("cannot open: the symbolic link to ",
                         in_quotes(std::string_view(target.data(), static_cast<std::size_t>(n))), " is broken"));
}

std::int8_t index_of(const Format* format) {
  const auto all = all_formats();
  return static_cast<std::int8_t>(std::find(all.begin(), all.end(), format) - all.begin());
}

class Prober {
 public:
  Prober(const std::vector<std::string>& paths, const DiscoverOptions& options, const Format* forced,
         const Sidecars& sidecars, Probes& out)
      : paths_(paths), options_(options), forced_(forced), sidecars_(sidecars), out_(out) {}

  void probe(std::size_t i, IoCounters& counters) {
    try {
      look_at(i, counters);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      out_.files[i].state = Probe::State::failed;
      const std::lock_guard<std::mutex> lock(mutex_);
      out_.faults.emplace(i, error);
    }
  }

  void accept(std::size_t i, const Format& format, std::vector<Header> headers, FileTable files = {}) {
    if (headers.size() != 1 || !headers[0].name.empty() || headers[0].grid || headers[0].encoding ||
        format.discover_store != nullptr) {
      accept_contents(i, format, {std::move(headers), std::move(files)});
      return;
    }
    const Header& header = headers[0];
    Probe& probe = out_.files[i];
    probe.rows = header.shape.empty() ? 1 : header.shape[0];
    probe.offset_bytes = header.offset_bytes;
    probe.byte_order = header.byte_order;
    probe.order = header.order;
    probe.format = index_of(&format);
    RowType type{header.dtype, {}, header.shape.empty()};
    if (!type.scalar) type.trailing = Shape(header.shape.span().subspan(1));
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = std::find(out_.row_types.begin(), out_.row_types.end(), type);
    probe.row_type = static_cast<std::int32_t>(it - out_.row_types.begin());
    if (it == out_.row_types.end()) out_.row_types.push_back(std::move(type));
    note(i, header);
    probe.state = Probe::State::data;
  }

 private:
  /// Under the lock.
  void note(std::size_t i, const Header& header) {
    if (!header.note.empty()) ++out_.notes.try_emplace(header.note, paths_[i], 0).first->second.second;
  }

  void accept_contents(std::size_t i, const Format& format, Contents contents) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Header& header : contents.headers) note(i, header);
    out_.contents.emplace(i, std::move(contents));
    out_.files[i].format = index_of(&format);
    out_.files[i].state = Probe::State::data;
  }

  void look_at(std::size_t i, IoCounters& counters) {
    const std::string& path = paths_[i];
    struct stat found {};
    // A factory that is not the file system may know names that stat does not.
    if (::stat(path.c_str(), &found) != 0) {
      const int failed = errno;
      if (failed != ENOENT || options_.sources == nullptr) throw stat_error(failed, path);
    } else if (const std::string_view kind = kind_of_file(found.st_mode); !kind.empty()) {
      if (const Format* format = S_ISDIR(found.st_mode) ? find_store_format(path) : nullptr) {
        if (forced_ == nullptr || forced_ == format) {
          look_into_store(i, *format, counters);
        } else {
          set_odd(i, Probe::State::not_file, {cat("a ", format->name, " store"), format->name});
        }
        return;
      }
      set_odd(i, Probe::State::not_file, {std::string(kind), {}});
      return;
    }
    ByteSourceFactory& sources = options_.sources != nullptr ? *options_.sources : pread_sources();
    const std::unique_ptr<ByteSource> source = sources.open(path);
    ++counters.opens;
    out_.files[i].stamp = source->stamp();
    if (forced_ != nullptr && forced_->name == "raw") {
      accept(i, *forced_, forced_->discover(*source, hints_for(path, options_, sidecars_)));
      return;
    }
    HeadSource head(*source, counters);
    const Format* format = recognise(head);
    if (format == nullptr) format = best_guess(head.head(), source->stamp().size_bytes, path);
    if (format == nullptr || (forced_ != nullptr && format != forced_)) {
      Sniffed sniffed = sniff(head.head(), source->stamp().size_bytes, path);
      if (format != nullptr) sniffed = {cat("a file of format ", format->name), format->name};
      set_odd(i, Probe::State::unknown, std::move(sniffed));
      return;
    }
    if (forced_ == nullptr && is_called_otherwise(path, *format)) {
      Sniffed sniffed = sniff(head.head(), source->stamp().size_bytes, path);
      set_odd(i, Probe::State::unknown,
              {sniffed.named ? std::move(sniffed.what) : cat("a file of format ", format->name), {}});
      return;
    }
    out_.files[i].format = index_of(format);
    std::vector<Header> headers = format->discover(head, options_.hints);
    if (headers.size() == 1) check_sidecar(i, headers[0]);
    accept(i, *format, std::move(headers));
  }

  /// True when the extension is that of another self-describing format: one of the two is wrong.
  static bool is_called_otherwise(const std::string& path, const Format& format) {
    const std::string extension = extension_of(path);
    const auto has = [&](const Format& each) {
      return std::find(each.extensions.begin(), each.extensions.end(), extension) != each.extensions.end();
    };
    const auto all = all_formats();
    return !has(format) &&
           std::any_of(all.begin(), all.end(), [&](const Format* each) { return each->name != "raw" && has(*each); });
  }

  /// The format that says best what is wrong with a file that none recognised: the one that it looks like (a zip
  /// archive called .npz), or a format without a magic that it is called as.
  const Format* best_guess(std::span<const std::byte> head, std::int64_t size_bytes, const std::string& path) const {
    const Sniffed sniffed = sniff(head, size_bytes, path);
    if (!sniffed.data_format.empty()) return find_format(sniffed.data_format);
    if (sniffed.named) return nullptr;
    const std::string extension = extension_of(path);
    for (const Format* format : all_formats()) {
      const auto& known = format->extensions;
      if (!format->has_magic && std::find(known.begin(), known.end(), extension) != known.end()) return format;
    }
    return nullptr;
  }

  void look_into_store(std::size_t i, const Format& format, IoCounters& counters) {
    out_.files[i].format = index_of(&format);
    CountingFactory sources(options_.sources != nullptr ? *options_.sources : pread_sources(), counters);
    FileTable files;
    std::vector<Header> headers = format.discover_store(paths_[i], sources, options_.hints, files);
    accept(i, format, std::move(headers), std::move(files));
  }

  const Format* recognise(HeadSource& source) const {
    if (forced_ != nullptr && forced_->recognise(source.head())) return forced_;
    for (const Format* format : all_formats()) {
      if (format->recognise(source.head())) return format;
    }
    for (const Format* format : all_formats()) {
      if (format->recognise_inside != nullptr && format->recognise_inside(source)) return format;
    }
    return nullptr;
  }

  void check_sidecar(std::size_t i, const Header& header) const {
    const auto it = sidecars_.find(folder_of(paths_[i]));
    if (it == sidecars_.end() || !it->second.sidecar) return;
    const std::string wrong = contradiction(header, it->second.sidecar->of(base_name(paths_[i])));
    if (wrong.empty()) return;
    throw file_error(paths_[i], cat("contradicts ", in_quotes(it->second.sidecar->path), ", which says ", wrong));
  }

  void set_odd(std::size_t i, Probe::State state, Sniffed sniffed) {
    out_.files[i].state = state;
    const std::lock_guard<std::mutex> lock(mutex_);
    out_.odd.emplace(i, std::move(sniffed));
  }

  const std::vector<std::string>& paths_;
  const DiscoverOptions& options_;
  const Format* forced_;
  const Sidecars& sidecars_;
  Probes& out_;
  std::mutex mutex_;
};

}  // namespace

ReadHints hints_for(const std::string& path, const DiscoverOptions& options, const Sidecars& sidecars) {
  const auto it = sidecars.find(folder_of(path));
  if (it == sidecars.end()) return options.hints;
  const FolderSidecar& beside = it->second;
  if (beside.sidecar) return merge_hints(beside.sidecar->of(base_name(path)), options.hints);
  if (beside.fault && !enough_for_raw(options.hints)) throw Error(*beside.fault);
  return options.hints;
}

Probes probe_files(const std::vector<std::string>& paths, const DiscoverOptions& options, const Format* forced,
                   const Sidecars& sidecars, const ThreadPool& pool) {
  Probes out;
  out.files.resize(paths.size());
  Prober prober(paths, options, forced, sidecars, out);
  ProgressMeter meter(options.progress, "discover", 0);
  std::vector<IoCounters> counters(static_cast<std::size_t>(pool.size()));
  const auto n = static_cast<std::int64_t>(paths.size());
  pool.parallel_for((n + kChunk - 1) / kChunk,
                    [&](std::int64_t chunk, int worker) {
                      IoCounters& mine = counters[static_cast<std::size_t>(worker)];
                      const std::int64_t before = mine.bytes_read;
                      for (std::int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
                        throw_if_requested(options.cancel);
                        prober.probe(static_cast<std::size_t>(i), mine);
                      }
                      meter.add(mine.bytes_read - before);
                    },
                    options.cancel);
  meter.finish();
  for (const IoCounters& each : counters) {
    out.counters.opens += each.opens;
    out.counters.read_calls += each.read_calls;
    out.counters.bytes_read += each.bytes_read;
  }
  return out;
}

void reread_as_raw(Probes& probes, std::size_t i, const std::string& path, const ReadHints& hints) {
  const Format* raw = find_format("raw");
  const std::vector<std::string> paths;
  StampSource source(path, probes.files[i].stamp);
  try {
    Prober(paths, {}, raw, {}, probes).accept(i, *raw, raw->discover(source, hints));
  } catch (const Error& error) {
    probes.files[i].state = Probe::State::failed;
    probes.faults.emplace(i, error);
  }
}

}  // namespace loadstone
