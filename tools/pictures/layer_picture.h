// PRIVATE to tools/: which layers of a model have moved, as bars.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/ops/diff/layers.h"

namespace nxdkit::tool {

struct PictureOptions {
  size_t columns = 80;
  bool utf8 = false;  // eighths of blocks, else '#'
};
// 80 columns, or as many as a narrower terminal has, and as the locale says.
PictureOptions PictureHere();

// A heading, and a row for each layer: its name, ||update|| / ||weights||, and a bar, the longest
// for the layer that moved most. Of more than 40 layers several follow each other in a row. "" for
// fewer than two rows.
std::string LayersText(const std::vector<ops::LayerMove>& layers, const PictureOptions& options);

}  // namespace nxdkit::tool
