// PRIVATE to tools/: a page that shows how far the weights of a model moved, layer by module.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/ops/diff/diff.h"
#include "lib/page/page.h"

namespace nxdkit::tool {

// The page of a comparison: its results, a heat map of ||update|| / ||weights|| with a strip for
// each step, and a table of the parameters. `paths`: of the versions that were compared. The page
// stays under `most_bytes` and states what it leaves out for that: steps, layers, or parameters,
// those that moved least first. lib/page/assets/heat.js draws it.
std::string DiffPage(const std::vector<std::string>& paths, const ops::VersionsReport& report,
                     size_t most_bytes = page::kMostData);

}  // namespace nxdkit::tool
