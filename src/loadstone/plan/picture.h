#pragma once

#include <string>

#include "loadstone/shard/sharding.h"

namespace loadstone {

/// Drawings of which device holds which box of an array of `shape`, for any number of dimensions: up to two dimensions
/// that are split are drawn to scale, further split dimensions become slices side by side.
/// Text for a terminal, at most `width` columns; every box names its devices (replicas share a box).
std::string draw_text(const Sharding& sharding, const Shape& shape, int width = 100);
/// A standalone SVG document; boxes coloured by process, devices written in them, dimensions and sizes on the axes,
/// files as ticks along axis 0 when `row_bounds` is given.
struct SvgOptions {
  std::string title;
  const std::vector<std::int64_t>* row_bounds = nullptr;
};
std::string draw_svg(const Sharding& sharding, const Shape& shape, const SvgOptions& options = {});

}  // namespace loadstone
