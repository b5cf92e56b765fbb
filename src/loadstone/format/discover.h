#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadstone/base/progress.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/base/trace.h"
#include "loadstone/format/catalog.h"
#include "loadstone/format/format.h"

namespace loadstone {

/// How to find the files and what to demand of them (loading D1–D22).
struct DiscoverOptions {
  std::string format;  ///< --format; "" = by content
  bool raw = false;    ///< --raw
  ReadHints hints;
  std::string files_from;  ///< --files-from LIST; paths relative to LIST, order kept
  bool allow_gaps = false;
  bool keep_order = false;
  std::optional<std::int64_t> expect_files;
  std::optional<std::int64_t> expect_rows;
  bool mixed_formats = false;
  std::string name;                      ///< of the stacked array; "" = the directory's name or the files' common stem
  ByteSourceFactory* sources = nullptr;  ///< null = pread_sources()
  CancelToken* cancel = nullptr;
  ProgressFn progress;
  Trace* trace = nullptr;
};

/// From paths (files, directories, glob patterns; literal when they exist) to the Catalog. Headers are read in
/// parallel, each file opened once, no payload byte read. Error{usage|data|system} as docs/errors.md says; several bad
/// files are named together, the first five and the count.
Catalog discover(const std::vector<std::string>& paths, const DiscoverOptions& options, const ThreadPool& pool);

}  // namespace loadstone
