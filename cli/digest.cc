#include <memory>

#include "cli/dump.h"
#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/load.h"

namespace loadstone::cli {
namespace {

void add(Arguments& args, Options& options) {
  add_source_options(args, options);
  args.text("--output", options.output, "FILE", "write the manifest here instead of on standard output");
  add_threads_option(args, options);
}

int run(Session& session) {
  const Options& o = session.options;
  const int threads = thread_count(o);
  const Catalog catalog = open_catalog(session);
  std::vector<std::string> names;
  for (const std::string& name : o.arrays) names.push_back(catalog.array(name).name);
  std::unique_ptr<OutputFile> file;
  if (o.output) file = std::make_unique<OutputFile>(*o.output);
  const Manifest manifest = digest(catalog, names, threads, session.progress.function(), session.cancel);
  session.progress.clear();

  const std::string document = to_json(manifest);
  Json arrays = Json::array();
  for (const ManifestArray& array : manifest.arrays) {
    arrays.push_back({{"name", json_text(array.name)},
                      {"shape", json_dims(array.shape)},
                      {"dtype", to_string(array.dtype)},
                      {"bytes", array.bytes},
                      {"digest", to_string(array.digest)}});
    if (file) {
      session.line(cat(printable(array.name), ": ", to_string(array.shape), " ", to_string(array.dtype), ", ",
                       to_string(array.digest)));
    }
  }
  session.json["arrays"] = std::move(arrays);
  if (file) {
    file->write(document);
    if (!document.ends_with('\n')) file->write("\n");
    file->finish();
    file->commit();
    session.json["output"] = json_text(*o.output);
  } else {
    session.json["manifest"] = Json::parse(document);
    session.text = document.ends_with('\n') ? document : document + "\n";
  }
  return kGood;
}

}  // namespace

extern const Verb digest_verb;
const Verb digest_verb{"digest", "Write the manifest of the arrays: digests that verify compares with",
                       "  loadstone digest shards/ --output M.json\n"
                       "  loadstone digest shards/ | jq '.arrays[0].digest'\n",
                       add, run};

}  // namespace loadstone::cli
