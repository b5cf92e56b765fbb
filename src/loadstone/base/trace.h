#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace loadstone {

/// Collects timed scopes and writes them as a Chrome trace (chrome://tracing, ui.perfetto.dev). Safe from any thread.
/// Format: "Trace Event Format", complete events ("ph": "X"), times in microseconds.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// `args` is shown beside the scope: {"bytes", "4194304"}, {"file", "shard_0001.npy"}.
  struct Event {
    std::string name;
    std::string category;  ///< the stage: discover, plan, read, copy, verify
    Clock::time_point begin, end;
    int worker = 0;
    std::vector<std::pair<std::string, std::string>> args;
  };

  void add(Event event);
  /// The whole trace as JSON text.
  std::string json() const;
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  Clock::time_point origin_ = Clock::now();
};

/// Times a scope into `trace`; costs one comparison when trace is null.
class TraceScope {
 public:
  TraceScope(Trace* trace, const char* name, const char* category, int worker = 0);
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope();
  void arg(const char* key, std::string value);

 private:
  Trace* trace_;
  Trace::Event event_;
};

}  // namespace loadstone
