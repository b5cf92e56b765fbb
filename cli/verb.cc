#include "cli/verb.h"

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/verify/verdict_json.h"

namespace loadstone::cli {

extern const Verb inspect_verb, plan_verb, load_verb, verify_verb, digest_verb, write_verb, bench_verb, doctor_verb,
    completion_verb;

const std::vector<const Verb*>& all_verbs() {
  static const std::vector<const Verb*> verbs{&inspect_verb, &plan_verb,  &load_verb,   &verify_verb,    &digest_verb,
                                              &write_verb,   &bench_verb, &doctor_verb, &completion_verb};
  return verbs;
}

const Verb* find_verb(const std::string& name) {
  for (const Verb* verb : all_verbs()) {
    if (name == verb->name) return verb;
  }
  return nullptr;
}

std::unique_ptr<Arguments> make_arguments(const Verb& verb, Options& options) {
  auto args = std::make_unique<Arguments>(verb.name, verb.summary, verb.examples);
  verb.add(*args, options);
  args->flag("--json", options.json, "print one JSON object on standard output");
  return args;
}

std::vector<std::string> option_names(const Verb& verb) {
  Options unused;
  return make_arguments(verb, unused)->option_names();
}

Catalog open_catalog(Session& session, Trace* trace, bool tell_notes) {
  DiscoverOptions discover = discover_options(session.options);
  discover.cancel = session.cancel;
  discover.progress = session.progress.function();
  discover.trace = trace;
  Catalog catalog = open(session.options.paths, discover, thread_count(session.options));
  session.progress.clear();
  check_format_options(session.options, catalog);
  if (!tell_notes) return catalog;
  for (const std::string& note : catalog.notes) say_note(note);
  if (!catalog.left_out.empty()) say_note(cat("left out: ", join_first(catalog.left_out, 5)));
  return catalog;
}

Json json_array(const ArrayEntry& array) {
  return {{"name", json_text(array.name)},
          {"format", array.format},
          {"shape", json_dims(array.shape)},
          {"dtype", to_string(array.dtype)},
          {"bytes", array.nbytes()}};
}

std::string array_line(const ArrayEntry& array) {
  return cat(printable(array.name), ": ", to_string(array.shape), " ", to_string(array.dtype), ", ",
             format_bytes(array.nbytes()));
}

int report_verdict(Session& session, const Verdict& verdict) {
  session.json["verdict"] = Json::parse(to_json(verdict));
  std::string words = to_string(verdict);
  while (words.ends_with('\n')) words.pop_back();
  session.line(words);
  if (verdict.ok()) return kGood;
  std::string message = "verification failed";
  if (!verdict.accusations.empty()) {
    message += cat(": ", to_string(verdict.accusations.front()));
    if (const std::size_t others = verdict.accusations.size() - 1; others > 0) message += cat(" and ", others, " more");
  }
  session.json["error"] = {{"kind", "verification"},
                           {"message", json_text(message)},
                           {"file", nullptr},
                           {"expected", nullptr},
                           {"found", nullptr}};
  return kVerificationFailed;
}

}  // namespace loadstone::cli
