#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadstone/shard/mesh.h"

namespace loadstone {

/// For each dimension of the array the mesh axes it is split over, major to minor (the first varies slowest); an empty
/// list means not split. Missing trailing entries mean not split. Mesh axes that are not named replicate.
/// Source: jax.sharding.PartitionSpec.
class PartitionSpec {
 public:
  using Entry = std::vector<std::string>;
  PartitionSpec() = default;
  explicit PartitionSpec(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  const std::vector<Entry>& entries() const { return entries_; }

  /// The canonical form at `ndim` on `mesh`: exactly ndim entries, axes of size 1 dropped. Error{usage}: more entries
  /// than dimensions (scalars take only P()), an axis used twice, an unknown axis (the known ones are listed).
  PartitionSpec canonical(const Mesh& mesh, int ndim) const;

  friend bool operator==(const PartitionSpec&, const PartitionSpec&) = default;

 private:
  std::vector<Entry> entries_;
};

/// Reads "x,-,y+z" ("-" or nothing = not split, "+" joins axes, first is slowest); "" is P(). Refuses nested
/// parentheses, UNCONSTRAINED, unreduced and reduced by name. Error{usage}.
PartitionSpec parse_spec(std::string_view text);
/// "P('x', None, ('y', 'z'))"
std::string to_string(const PartitionSpec& spec);

}  // namespace loadstone
