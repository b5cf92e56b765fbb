#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {

namespace {

constexpr double kQuietSeconds = 0.3;
constexpr std::string_view kClear = "\r\x1b[K";

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  const auto two = [](std::int64_t value) { return cat(value < 10 ? "0" : "", value); };
  if (whole < 3600) return cat(whole / 60, ":", two(whole % 60));
  return cat(whole / 3600, ":", two(whole / 60 % 60), ":", two(whole % 60));
}

std::size_t columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col;
  return 80;
}

void put(std::string_view text) {
  // A terminal that has gone is not worth an error.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string progress_text(const ProgressUpdate& u) {
  std::string out = cat(u.stage, "  ", format_bytes(u.done_bytes));
  if (u.total_bytes > 0) {
    out +=
        cat(" of ", format_bytes(u.total_bytes), "  ",
            static_cast<std::int64_t>(100.0 * static_cast<double>(u.done_bytes) / static_cast<double>(u.total_bytes)),
            " %");
  }
  if (u.seconds > 0) {
    const double rate = static_cast<double>(u.done_bytes) / u.seconds;
    out += cat("  ", format_rate(rate));
    if (u.total_bytes > u.done_bytes && rate > 0) {
      out += cat("  ", clock_text(static_cast<double>(u.total_bytes - u.done_bytes) / rate), " left");
    }
  }
  return out;
}

ProgressLine::ProgressLine() {
  const char* terminal = std::getenv("TERM");
  enabled_ = ::isatty(STDERR_FILENO) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

ProgressLine::~ProgressLine() {
  clear();
}

ProgressFn ProgressLine::function() {
  if (!enabled_) return {};
  return [this](const ProgressUpdate& update) {
    if (update.seconds < kQuietSeconds && !drawn_) return;
    const std::lock_guard<std::mutex> held(mutex_);
    std::string line = progress_text(update);
    if (const std::size_t width = columns(); line.size() >= width) line.resize(width - 1);
    put(cat(kClear, line));
    drawn_ = true;
  };
}

void ProgressLine::clear() {
  const std::lock_guard<std::mutex> held(mutex_);
  if (drawn_) put(kClear);
  drawn_ = false;
}

}  // namespace loadstone::cli
