#include "loadstone/shard/spec.h"

#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/shard/trim.h"

namespace loadstone {

using detail::trim;

namespace {

// Entries of JAX that are no axis names: they leave the placement to a compiler.
bool gives_no_placement(std::string_view name) {
  for (const std::string_view prefix : {"P.", "PartitionSpec."}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name == "AUTO" || name == "UNCONSTRAINED" || name == "unconstrained") return true;
  for (const std::string_view word : {"unreduced", "reduced"}) {
    if (!name.starts_with(word)) continue;
    const std::string_view rest = trim(name.substr(word.size()));
    if (rest.empty() || rest.front() == '=') return true;
  }
  return false;
}

[[noreturn]] void refuse(std::string_view spec, std::string_view name) {
  throw usage_error(cat("spec ", spec, ": entry '", printable(name),
                        "' gives no placement: it does not say which device holds which bytes; name mesh axes, or use "
                        "- for a dimension that is not split"));
}

}  // namespace

PartitionSpec PartitionSpec::canonical(const Mesh& mesh, int ndim) const {
  const auto num_entries = static_cast<std::int64_t>(entries_.size());
  if (num_entries > ndim) {
    const std::string text = to_string(*this);
    if (ndim == 0) throw usage_error(cat("a scalar takes only the spec P(), found ", text));
    throw usage_error(cat("the spec ", text, " has ", num_entries, " entries, but the array has ndim ", ndim),
                      {{}, cat("at most ", ndim, " entries"), cat(num_entries, " entries"), 0});
  }
  std::vector<Entry> out(static_cast<std::size_t>(ndim));
  std::vector<bool> used(static_cast<std::size_t>(mesh.ndim()), false);
  for (std::size_t d = 0; d < entries_.size(); ++d) {
    if (entries_[d] == Entry{""}) continue;
    for (const std::string& name : entries_[d]) {
      const int axis = mesh.axis(name);
      if (axis < 0) {
        if (gives_no_placement(name)) refuse(to_string(*this), name);
        const std::string near = nearest(name, mesh.axis_names());
        throw usage_error(cat("unknown mesh axis '", printable(name), "' in the spec ", to_string(*this),
                              ": the mesh has the axes ", printable(join(mesh.axis_names(), ", ")),
                              near.empty() ? "" : cat("; the nearest is '", printable(near), "'")));
      }
      if (used[static_cast<std::size_t>(axis)]) {
        throw usage_error(cat("mesh axis '", printable(name), "' is used twice in the spec ", to_string(*this),
                              ": an axis can split one dimension only"));
      }
      used[static_cast<std::size_t>(axis)] = true;
      if (mesh.axis_sizes()[axis] > 1) out[d].push_back(name);
    }
  }
  return PartitionSpec(std::move(out));
}

PartitionSpec parse_spec(std::string_view text) {
  const std::string quoted = cat("'", printable(text), "'");
  if (trim(text).empty()) return PartitionSpec();
  int depth = 0;
  int deepest = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    deepest = std::max(deepest, depth);
  }
  if (text.find_first_of("()") != std::string_view::npos) {
    const std::string_view what = deepest > 1 ? "has a nested tuple (a tuple inside a tuple)" : "has parentheses";
    throw usage_error(cat("spec ", quoted, " ", what, ": write x,-,y+z for P('x', None, ('y', 'z'))"));
  }
  std::vector<PartitionSpec::Entry> entries;
  for (const std::string& part : split(text, ',')) {
    const std::string_view entry = trim(part);
    PartitionSpec::Entry names;
    if (!entry.empty() && entry != "-") {
      for (const std::string& piece : split(entry, '+')) {
        const std::string_view name = trim(piece);
        if (gives_no_placement(name)) refuse(quoted, name);
        if (name.empty() || name == "-") {
          throw usage_error(cat("spec ", quoted, ": entry '", printable(entry),
                                "' joins an axis with nothing: expected names with + between, as in y+z"));
        }
        if (name == "None" || name.find_first_of("'\" \t") != std::string_view::npos) {
          throw usage_error(cat("spec ", quoted, ": entry '", printable(entry),
                                "' is not an axis name: write x,-,y+z for P('x', None, ('y', 'z'))"));
        }
        names.emplace_back(name);
      }
    }
    entries.push_back(std::move(names));
  }
  return PartitionSpec(std::move(entries));
}

std::string to_string(const PartitionSpec& spec) {
  std::vector<std::string> parts;
  for (const PartitionSpec::Entry& entry : spec.entries()) {
    std::vector<std::string> names;
    for (const std::string& name : entry) names.push_back(cat("'", printable(name), "'"));
    const std::string joined = join(names, ", ");
    parts.push_back(names.empty() ? "None" : names.size() == 1 ? joined : cat("(", joined, ")"));
  }
  return cat("P(", join(parts, ", "), ")");
}

}  // namespace loadstone
