#include <algorithm>

#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {
namespace {

void add(Arguments& args, Options& options) {
  add_source_options(args, options);
  add_threads_option(args, options);
}

/// Byte and element order of an array: one word each, "mixed" where parts differ. Grids share theirs.
void add_orders(Json& out, const ArrayEntry& array) {
  constexpr std::int64_t kMany = 1'000'000;
  const std::int64_t pieces = array.tiling.num_pieces();
  const std::int64_t asked = array.tiling.all_plain() ? std::min(pieces, kMany) : std::min<std::int64_t>(pieces, 1);
  bool c = false, f = false, little = false, big = false;
  for (std::int64_t p = 0; p < asked; ++p) {
    const Piece piece = array.tiling.piece(p, array.dtype);
    (piece.order == ElementOrder::c ? c : f) = true;
    (piece.byte_order == ByteOrder::little ? little : big) = true;
  }
  out["order"] = c && f ? "mixed" : f ? "F" : "C";
  out["byte_order"] = little && big ? "mixed" : big ? "big" : "little";
}

Json describe(const Catalog& catalog, const ArrayEntry& array) {
  constexpr std::int64_t kRowsShown = 8;
  Json out = json_array(array);
  const std::int64_t parts = array.tiling.num_parts();
  if (array.tiling.scalar()) {
    out["total_rows"] = nullptr;
    out["trailing_shape"] = Json::array();
  } else {
    out["total_rows"] = array.tiling.row_bounds().back();
    out["trailing_shape"] = json_dims(Dims(array.shape.span().subspan(1)));
  }
  Json rows = Json::array();
  for (std::int64_t p = 0; !array.tiling.scalar() && p < std::min(parts, kRowsShown); ++p) {
    rows.push_back(array.tiling.rows_of(p));
  }
  out["rows"] = std::move(rows);
  out["rows_more"] = array.tiling.scalar() ? 0 : std::max<std::int64_t>(0, parts - kRowsShown);
  add_orders(out, array);
  out["file_count"] = parts;
  Json files = Json::array();
  for (std::int64_t p = 0; p < parts; ++p) files.push_back(json_text(catalog.files.path(array.tiling.file_of(p))));
  out["files"] = std::move(files);
  return out;
}

int run(Session& session) {
  const Catalog catalog = open_catalog(session, nullptr, false);
  Json arrays = Json::array();
  std::string format;
  for (const ArrayEntry& array : catalog.arrays) {
    arrays.push_back(describe(catalog, array));
    if (format.empty()) format = array.format;
    if (format != array.format) format = "mixed";
  }
  const auto texts = [](const std::vector<std::string>& list) {
    Json out = Json::array();
    for (const std::string& text : list) out.push_back(json_text(text));
    return out;
  };
  session.json["format"] = format;
  session.json["arrays"] = std::move(arrays);
  session.json["completeness"] = catalog.completeness_checked ? "checked" : "not checked";
  session.json["notes"] = texts(catalog.notes);
  session.json["left_out"] = texts(catalog.left_out);
  session.json["io"] = {{"opens", catalog.counters.opens},
                        {"read_calls", catalog.counters.read_calls},
                        {"bytes_read", catalog.counters.bytes_read}};
  session.text = to_string(catalog);
  if (!session.text.ends_with('\n')) session.text += '\n';
  return kGood;
}

}  // namespace

extern const Verb inspect_verb;
const Verb inspect_verb{"inspect", "Show the arrays found in files, from their headers alone",
                        "  loadstone inspect shards/\n"
                        "  loadstone inspect 'run7/part-*.npy' --expect-files 64\n"
                        "  loadstone inspect dump/ --raw --dtype float32 --row-shape 1024 --json\n",
                        add, run};

}  // namespace loadstone::cli
