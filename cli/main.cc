#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/signals.h"
#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {
namespace {

std::string overall_help() {
  std::string out =
      "Loadstone puts every shard of an on-disk array on the right device, and proves it.\n\n"
      "Usage: loadstone VERB [OPTIONS] [PATH]...\n\nVerbs:\n";
  for (const Verb* verb : all_verbs()) {
    std::string name = verb->name;
    name.resize(12, ' ');
    out += cat("  ", name, verb->summary, "\n");
  }
  out +=
      "\nOptions:\n"
      "  -h,--help     print this help, or that of a verb: loadstone load --help\n"
      "  --version     print the version\n\n"
      "Exit codes: 0 good, 1 verification failed, 2 usage, 3 data, 4 system, 70 a bug of ours, 130 interrupted\n";
  return out;
}

/// The word as a known one might have been meant, for the end of a message; "" when none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : cat(": did you mean ", near, "?");
}

[[noreturn]] void refuse_unknown(const std::string& word, const Verb& verb) {
  const std::string name = word.substr(0, word.find('='));
  std::string hint = did_you_mean(name, option_names(verb));
  std::string owners;
  for (const Verb* other : all_verbs()) {
    const std::vector<std::string> names = option_names(*other);
    if (std::binary_search(names.begin(), names.end(), name)) owners += cat(owners.empty() ? "" : ", ", other->name);
  }
  if (!owners.empty()) hint = cat(": it belongs to ", owners);
  throw usage_error(cat("unknown option '", printable(name), "' for loadstone ", verb.name, hint),
                    {.file = "", .expected = "a known option", .found = printable(name)});
}

Arguments::Parsed parse(const Verb& verb, Arguments& args, const std::vector<std::string>& words) {
  try {
    return args.parse(words);
  } catch (const Arguments::Unread& unread) {
    if (unread.word.size() > 1 && unread.word.starts_with("-")) refuse_unknown(unread.word, verb);
    if (!unread.word.empty())
      throw usage_error(cat("loadstone ", verb.name, " takes no '", printable(unread.word), "'"));
    throw usage_error(cat("loadstone ", verb.name, ": ", unread.message));
  }
}

/// One object on stdout: what the verb said, or why it failed.
std::string json_line(const std::string& verb, bool ok, Json body) {
  Json out{{"schema", 1}, {"verb", verb.empty() ? Json() : Json(json_text(verb))}, {"ok", ok}};
  out.update(body);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct Run {
  std::string verb;
  bool json = false;
};

int run(Run& run, const std::vector<std::string>& words) {
  if (words.empty()) throw usage_error(cat("no verb given: ", "loadstone --help lists them"));
  const std::string& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    write_stdout(overall_help());
    return kGood;
  }
  if (first == "--version") {
    write_stdout(run.json ? json_line("", true, {{"version", version()}}) : cat("loadstone ", version(), "\n"));
    return kGood;
  }
  const Verb* verb = find_verb(first);
  if (verb == nullptr) {
    std::vector<std::string> known;
    for (const Verb* each : all_verbs()) known.emplace_back(each->name);
    if (first.starts_with("-")) known = {"--help", "--version"};
    const std::string hint = did_you_mean(first, known);
    throw usage_error(cat(first.starts_with("-") ? "unknown option '" : "unknown verb '", printable(first), "'",
                          hint.empty() ? cat(": known are ", join(known, ", ")) : hint),
                      {.file = "", .expected = join(known, ", "), .found = printable(first)});
  }
  run.verb = verb->name;

  Options options;
  const std::unique_ptr<Arguments> args = make_arguments(*verb, options);
  if (parse(*verb, *args, {words.begin() + 1, words.end()}) == Arguments::Parsed::help_wanted) {
    write_stdout(args->help());
    return kGood;
  }
  run.json = options.json;

  Session session(options);
  session.cancel = &cancel_token();
  const int code = verb->run(session);
  session.progress.clear();
  for (const std::string& note : session.notes) say_note(note);
  write_stdout(run.json ? json_line(run.verb, code == kGood, std::move(session.json)) : session.text);
  if (code == kVerificationFailed) say_error(session.failure);
  return code;
}

int guarded(const std::vector<std::string>& words) {
  Run state;
  // Also a command line that cannot be read is answered in JSON when that was asked for.
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == "--json") state.json = true;
  }
  try {
    return run(state, words);
  } catch (const BrokenPipe&) {
    return kSystem;
  } catch (...) {
    Failure failure = as_failure(std::current_exception());
    if (cancel_token().requested() && !failure.interrupted) failure = {Interrupted(), true};
    const Error& error = failure.error;
    if (!failure.interrupted && error.kind() == ErrorKind::internal) {
      say_error(cat(error.message(), " (", error.where().file_name(), ":", error.where().line(),
                    "): this is a bug of loadstone, please report it"));
    } else {
      say_error(error.message());
    }
    if (state.json) {
      try {
        write_stdout(json_line(state.verb, false, {{"error", failure.json()}}));
      } catch (...) {
        return failure.interrupted ? kStopped : kSystem;
      }
    }
    return failure.exit_code();
  }
}

}  // namespace
}  // namespace loadstone::cli

int main(int argc, char** argv) {
  try {
    loadstone::cli::install_signal_handlers();
    return loadstone::cli::guarded({argv + std::min(argc, 1), argv + argc});
  } catch (...) {
    // No memory even for the words of the command line or for saying what failed.
    loadstone::cli::say_out_of_memory();
    return loadstone::cli::kSystem;
  }
}
