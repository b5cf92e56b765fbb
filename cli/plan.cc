#include "loadstone/plan/plan.h"

#include "cli/dump.h"
#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/plan/picture.h"
#include "loadstone/plan/plan_json.h"

namespace loadstone::cli {
namespace {

void add(Arguments& args, Options& options) {
  add_source_options(args, options);
  add_sharding_options(args, options);
  add_plan_options(args, options);
  args.text("--svg", options.svg, "FILE", "draw the placement as an SVG picture");
}

int run(Session& session) {
  const Options& o = session.options;
  const Placing placing(o);
  const PlanOptions plan_options = cli::plan_options(o);
  const Catalog catalog = open_catalog(session);
  const Plan plan = make_plan(catalog, requests(o, placing, catalog), plan_options);
  if (o.svg && plan.arrays.size() > 1) throw usage_error("--svg draws one array: choose it with --array NAME");

  session.json["plan"] = Json::parse(to_json(catalog, plan));
  session.text = to_string(plan);
  if (!session.text.ends_with('\n')) session.text += '\n';
  for (const PlannedArray& array : plan.arrays) {
    session.line(cat("\n", printable(array.name), ":"));
    session.text += draw_text(array.sharding, array.shape);
    if (!session.text.ends_with('\n')) session.text += '\n';
  }
  if (o.explain) {
    const std::string words = explain(catalog, plan);
    session.json["explain"] = json_text(words);
    session.text += cat("\n", words);
    if (!session.text.ends_with('\n')) session.text += '\n';
  }
  if (o.svg) {
    const PlannedArray& array = plan.arrays.front();
    const ArrayEntry& entry = catalog.arrays[static_cast<std::size_t>(array.catalog_index)];
    SvgOptions svg{cat(printable(array.name), " ", to_string(array.shape)), nullptr};
    if (!entry.tiling.scalar()) svg.row_bounds = &entry.tiling.row_bounds();
    write_output(*o.svg, draw_svg(array.sharding, array.shape, svg));
    session.json["svg"] = json_text(*o.svg);
    session.notes.push_back(cat("picture in '", printable(*o.svg), "'"));
  }
  return kGood;
}

}  // namespace

extern const Verb plan_verb;
const Verb plan_verb{"plan", "Show who reads which bytes and where they go, before any byte moves",
                     "  loadstone plan shards/ --mesh x=2,y=4 --spec x,y\n"
                     "  loadstone plan shards/ --devices 0,1,2,3 --explain\n"
                     "  loadstone plan shards/ --mesh x=4 --spec -,x --uneven ceil --svg placement.svg\n",
                     add, run};

}  // namespace loadstone::cli
