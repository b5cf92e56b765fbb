#pragma once

#include <mutex>
#include <string>

#include "loadstone/base/progress.h"

namespace loadstone::cli {

/// "load  1.20 GB of 4.10 GB  29 %  3.20 GB/s  0:01 left"
std::string progress_text(const ProgressUpdate& update);

/// One line on stderr that is redrawn, and gone when this is: only where stderr is a terminal. Work that ends within
/// 0.3 s shows nothing.
class ProgressLine {
 public:
  ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  /// Empty where nothing is to be shown. Must not outlive this.
  ProgressFn function();
  void clear();

 private:
  bool enabled_;
  std::mutex mutex_;
  bool drawn_ = false;
};

}  // namespace loadstone::cli
