// The grid of ranks that a set's files form.
#pragma once

#include <string>
#include <vector>

#include "formats/nxd/shard_set.h"
#include "lib/base/error.h"

namespace nxdkit::nxd {

struct GridSizes {
  int tp = 0;
  int pp = 0;
  int ep = 0;
  int dp = 0;
};

// Orders the files by tp, pp, ep, dp rank, and tells the sizes of the axes from them. kCorrupt in
// `folder` when two files hold one place of the grid, or when it has holes (names the first).
Result<GridSizes> OrderGrid(std::vector<ShardFile>& files, const std::string& folder);

}  // namespace nxdkit::nxd
