// PRIVATE to tools/: facts of compiled graphs.
#pragma once

#include "tools/inspect/fact.h"

namespace nxdkit::tool {

void AddNeffs(Facts& facts, const std::vector<ops::NeffFacts>& neffs);
void AddCache(Facts& facts, const std::optional<neff::CacheListing>& cache);

}  // namespace nxdkit::tool
