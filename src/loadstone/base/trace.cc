#include "loadstone/base/trace.h"

#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {
std::string quoted_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string micros(Trace::Clock::duration d) {
  return format_fixed(std::chrono::duration<double, std::micro>(d).count(), 3);
}
}  // namespace

void Trace::add(Event event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back(std::move(event));
}

std::size_t Trace::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return events_.size();
}

std::string Trace::json() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  for (const Event& event : events_) {
    out += cat(separator, "{\"ph\":\"X\",\"pid\":1,\"tid\":", event.worker, ",\"name\":", quoted_json(event.name),
               ",\"cat\":", quoted_json(event.category), ",\"ts\":", micros(event.begin - origin_),
               ",\"dur\":", micros(event.end - event.begin), ",\"args\":{");
    const char* comma = "";
    for (const auto& [key, value] : event.args) {
      out += cat(comma, quoted_json(key), ":", quoted_json(value));
      comma = ",";
    }
    out += "}}";
    separator = ",\n";
  }
  return out + "\n]}\n";
}

TraceScope::TraceScope(Trace* trace, const char* name, const char* category, int worker) : trace_(trace) {
  if (trace_ == nullptr) return;
  event_.name = name;
  event_.category = category;
  event_.worker = worker;
  event_.begin = Trace::Clock::now();
}

TraceScope::~TraceScope() {
  if (trace_ == nullptr) return;
  event_.end = Trace::Clock::now();
  try {
    trace_->add(std::move(event_));
  } catch (...) {  // NOLINT(bugprone-empty-catch): a lost trace event must not end a load
  }
}

void TraceScope::arg(const char* key, std::string value) {
  if (trace_ != nullptr) event_.args.emplace_back(key, std::move(value));
}

}  // namespace loadstone
