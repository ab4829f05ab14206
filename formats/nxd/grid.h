// The grid of ranks formed by a set's files.
#pragma once

#include <string>
#include <vector>

#include "formats/nxd/shard_set.h"

namespace nxdkit::nxd {

struct GridSizes {
  int tp = 0;
  int pp = 0;
  int ep = 0;
  int dp = 0;
};

// Orders the files by tp, pp, ep, dp rank, and derives the sizes of the axes from them. kCorrupt in
// `folder` when two files claim one place of the grid, or when it has holes (names the first).
Result<GridSizes> OrderGrid(std::vector<ShardFile>& files, const std::string& folder);

// kCorrupt, naming the first missing files, when there are fewer than a grid of `sizes` has. The
// files alone do not show the larger grid; `origin` is the source of `sizes`.
Status RequireGrid(const std::vector<ShardFile>& files, const GridSizes& sizes,
                   const std::string& origin);

}  // namespace nxdkit::nxd
