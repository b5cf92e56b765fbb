#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace loadstone::cli {

/// What a verb works with, and what it leaves to be printed: `text` for people, `json` for --json. main() adds schema,
/// verb and ok, and prints one of the two.
struct Session {
  explicit Session(const Options& o) : options(o) {}

  const Options& options;
  CancelToken* cancel = nullptr;
  ProgressLine progress;
  std::string text;
  Json json = Json::object();
  std::string failure;             ///< of a verification, for stderr
  std::vector<std::string> notes;  ///< told on stderr once the work is done, not before an error

  void line(const std::string& words) { text += words + "\n"; }
};

/// One word of the command line: a constant in its own file, listed in all_verbs().
struct Verb {
  const char* name;
  const char* summary;
  const char* examples;  ///< lines for --help
  void (*add)(Arguments& args, Options& options);
  /// Returns kGood or kVerificationFailed; anything else is thrown.
  int (*run)(Session& session);
};

const std::vector<const Verb*>& all_verbs();
const Verb* find_verb(const std::string& name);
/// A parser of one verb's options. Fills `options`, which must outlive it.
std::unique_ptr<Arguments> make_arguments(const Verb& verb, Options& options);
/// Long option names of a verb, with the dashes, sorted.
std::vector<std::string> option_names(const Verb& verb);

/// Discovers the data set of PATH as the options say. Notes of the catalog become the session's, unless the verb prints
/// them.
Catalog open_catalog(Session& session, Trace* trace = nullptr, bool tell_notes = true);
/// {"name", "format", "shape", "dtype", "bytes"}
Json json_array(const ArrayEntry& array);
/// "weights: (400000, 1024) float32, 1.64 GB"
std::string array_line(const ArrayEntry& array);
/// Adds the verdict's levels and accusations to the session, and for damaged rows the files they come from and the
/// devices that hold them. kVerificationFailed when it is not ok.
int report_verdict(Session& session, const Verdict& verdict, const Catalog& catalog, const Placement& placement);

}  // namespace loadstone::cli
