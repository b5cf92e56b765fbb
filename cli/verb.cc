#include "cli/verb.h"

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/verify/verdict_json.h"

namespace loadstone::cli {

extern const Verb inspect_verb, plan_verb, load_verb, verify_verb, digest_verb, write_verb, convert_verb, bench_verb,
    doctor_verb, completion_verb;

const std::vector<const Verb*>& all_verbs() {
  static const std::vector<const Verb*> verbs{&inspect_verb, &plan_verb,      &load_verb,    &verify_verb,
                                              &digest_verb,  &write_verb,     &convert_verb, &bench_verb,
                                              &doctor_verb,  &completion_verb};
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
  session.notes = catalog.notes;
  if (!catalog.left_out.empty()) session.notes.push_back(cat("left out: ", join_first(catalog.left_out, 5)));
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

namespace {

/// What is wrong at the source is wrong in files and on devices: which.
struct Damaged {
  std::vector<std::string> files, places;
  Json devices = Json::array();
};

Damaged damaged_by(const Accusation& accusation, const Catalog& catalog, const Placement& placement) {
  Damaged out;
  const auto is_accused = [&](const auto& array) { return array.name == accusation.array; };
  const auto entry = std::find_if(catalog.arrays.begin(), catalog.arrays.end(), is_accused);
  if (entry == catalog.arrays.end() || accusation.expected_box.ndim() != entry->shape.size()) return out;
  entry->tiling.for_each_overlap(accusation.expected_box, entry->dtype, [&](const Piece& piece) {
    std::string path = piece.file < 0 ? "" : catalog.files.path(piece.file);
    if (!path.empty() && (out.files.empty() || out.files.back() != path)) out.files.push_back(std::move(path));
    return true;
  });
  for (const PlacedShard& shard : placement.shards) {
    if (!is_accused(placement.arrays[static_cast<std::size_t>(shard.array)])) continue;
    if (!overlaps(shard.shard.box, accusation.expected_box)) continue;
    out.places.push_back(to_string(shard.shard.device));
    out.devices.push_back(json_device(shard.shard.device));
  }
  return out;
}

}  // namespace

int report_verdict(Session& session, const Verdict& verdict, const Catalog& catalog, const Placement& placement) {
  constexpr std::size_t kShown = 5;
  Json json = Json::parse(to_json(verdict));
  std::string words = to_string(verdict);
  while (words.ends_with('\n')) words.pop_back();
  session.line(words);
  std::string first;
  for (std::size_t a = 0; a < verdict.accusations.size(); ++a) {
    const Accusation& accusation = verdict.accusations[a];
    std::string culprit;
    if (accusation.level == Level::source) {
      const Damaged damaged = damaged_by(accusation, catalog, placement);
      Json& at = json["accusations"][a];
      at["files"] = Json::array();
      std::vector<std::string> names;
      for (const std::string& file : damaged.files) {
        at["files"].push_back(json_text(file));
        names.push_back(cat("'", printable(file), "'"));
      }
      at["devices"] = damaged.devices;
      culprit = cat("rows of ", join_first(names, kShown), ", held by ", join_first(damaged.places, kShown));
      session.line(cat("  ", to_string(accusation.expected_box), ": ", culprit));
    }
    if (a == 0) first = cat(to_string(accusation), culprit.empty() ? "" : ": ", culprit);
  }
  session.json["verdict"] = std::move(json);
  if (verdict.ok()) return kGood;
  const std::size_t others = verdict.accusations.empty() ? 0 : verdict.accusations.size() - 1;
  session.failure = cat("verification failed", first.empty() ? "" : ": ", first,
                        others > 0 ? cat(" and ", others, " more") : std::string());
  session.json["error"] = {{"kind", "verification"},
                           {"message", json_text(session.failure)},
                           {"file", nullptr},
                           {"expected", nullptr},
                           {"found", nullptr}};
  return kVerificationFailed;
}

}  // namespace loadstone::cli
