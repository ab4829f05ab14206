// PRIVATE to tools/: facts of compiled graphs.
#pragma once

#include "formats/kinds/facts.h"
#include "formats/ops/inspect/inspect.h"

namespace nxdkit::tool {

void AddNeffs(ops::Facts& facts, const std::vector<ops::NeffFacts>& neffs);
void AddCache(ops::Facts& facts, const std::optional<neff::CacheListing>& cache);

}  // namespace nxdkit::tool
