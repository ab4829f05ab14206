// PRIVATE to tools/: facts about compiled graphs.
#pragma once

#include "formats/kinds/facts.h"
#include "formats/ops/inspect/inspect.h"

namespace nxdkit::tool {

void AddNeffs(kinds::Facts& facts, const std::vector<ops::NeffFacts>& neffs);
void AddCache(kinds::Facts& facts, const std::optional<neff::CacheListing>& cache);

}  // namespace nxdkit::tool
