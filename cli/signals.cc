#include "cli/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "cli/verb.h"

namespace loadstone::cli {

namespace {

constexpr std::size_t kNotes = 64;
std::array<std::atomic<const char*>, kNotes> temporaries{};
std::atomic<int> signals_seen{0};
// Reached from the handler, so it must exist before the first signal and never be destroyed.
CancelToken* token = nullptr;

static_assert(std::atomic<const char*>::is_always_lock_free, "read in a signal handler");

void unlink_temporaries() {
  for (const auto& note : temporaries) {
    if (const char* path = note.load()) ::unlink(path);
  }
}

extern "C" void on_signal(int number) {
  if (signals_seen.fetch_add(1) == 0) {
    token->request();
    return;
  }
  unlink_temporaries();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// The libraries for JSON and options allocate in destructors and in noexcept functions: when memory ends just there, no
// exception reaches main(). Any other way here is a bug, and abort() says where.
[[noreturn]] void on_terminate() {
  unlink_temporaries();
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      say_out_of_memory();
      ::_exit(kSystem);
    } catch (...) {
    }
  }
  std::abort();
}

}  // namespace

void say_out_of_memory() {
  constexpr std::string_view kMessage = "loadstone: error: out of memory\n";
  (void)!::write(STDERR_FILENO, kMessage.data(), kMessage.size());
}

CancelToken& cancel_token() {
  static CancelToken* made = new CancelToken;
  return *made;
}

void install_signal_handlers() {
  std::set_terminate(on_terminate);
  token = &cancel_token();
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // a write into a full pipe returns, and is given up
  // SIGINT also where it was ignored (a script's background job): who sends it means it.
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
  struct sigaction inherited {};
  ::sigaction(SIGHUP, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);  // nohup
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

TemporaryNote::TemporaryNote(const std::string& path) : path_(path) {
  for (std::size_t i = 0; i < kNotes; ++i) {
    const char* empty = nullptr;
    if (temporaries[i].compare_exchange_strong(empty, path_.c_str())) {
      slot_ = static_cast<int>(i);
      return;
    }
  }
}

TemporaryNote::~TemporaryNote() {
  if (slot_ >= 0) temporaries[static_cast<std::size_t>(slot_)].store(nullptr);
}

}  // namespace loadstone::cli
