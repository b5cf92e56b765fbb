#pragma once

#include <string>

#include "loadstone/base/cancel.h"

namespace loadstone::cli {

/// The token that SIGINT, SIGTERM and SIGHUP set; install_signal_handlers() arms them. A second signal removes the
/// temporary files noted below and ends the process at once. SIGPIPE and SIGXFSZ are ignored: a write then fails with
/// an errno, which is reported.
CancelToken& cancel_token();
void install_signal_handlers();
/// One line on stderr, without an allocation.
void say_out_of_memory();

/// Notes a file for removal on the second signal while it lives. Beyond 64 files at a time nothing is noted.
class TemporaryNote {
 public:
  explicit TemporaryNote(const std::string& path);
  TemporaryNote(const TemporaryNote&) = delete;
  TemporaryNote& operator=(const TemporaryNote&) = delete;
  ~TemporaryNote();

 private:
  std::string path_;
  int slot_ = -1;
};

}  // namespace loadstone::cli
