#include <optional>

#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/load.h"

namespace loadstone::cli {
namespace {

void add(Arguments& args, Options& options) {
  add_source_options(args, options);
  args.text("--manifest", options.manifest, "FILE",
            "compare with this manifest (see loadstone digest); without one, with a second, independent pass");
  add_sharding_options(args, options);
  add_plan_options(args, options);
}

int run(Session& session) {
  const Options& o = session.options;
  const Placing placing(o);
  LoadOptions options;
  options.plan = plan_options(o);
  options.threads = thread_count(o);
  std::optional<Manifest> manifest;
  if (o.manifest) manifest = read_manifest(*o.manifest);
  const Catalog catalog = open_catalog(session);
  const std::vector<ArrayRequest> asked = requests(o, placing, catalog);

  options.cancel = session.cancel;
  options.progress = session.progress.function();
  if (manifest) {
    options.verify = VerifyMode::full;
    options.manifest = &*manifest;
  }
  LoadResult result = load(catalog, asked, options);
  if (!manifest) {
    CheckOptions check;
    check.threads = options.threads;
    check.cancel = session.cancel;
    check.progress = session.progress.function();
    result.verdict = verify(result.placement, catalog, check);
  }
  session.progress.clear();

  Json arrays = Json::array();
  for (const ArrayRequest& request : asked) {
    const ArrayEntry& array = catalog.arrays[static_cast<std::size_t>(request.array)];
    arrays.push_back(json_array(array));
    session.line(array_line(array));
  }
  session.json["arrays"] = std::move(arrays);
  session.json["manifest"] = o.manifest ? Json(json_text(*o.manifest)) : Json();
  return report_verdict(session, *result.verdict, catalog, result.placement);
}

}  // namespace

extern const Verb verify_verb;
const Verb verify_verb{"verify",
                       "Load, then prove that every device holds its part of what the files or a manifest say",
                       "  loadstone verify shards/ --manifest M.json --mesh x=2,y=4 --spec x,y\n"
                       "  loadstone verify shards/\n",
                       add, run};

}  // namespace loadstone::cli
