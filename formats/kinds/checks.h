// PRIVATE to formats/kinds: what verify says of a good artifact that is cut over ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::ops {

// The line on heads, where the family has projections that are cut by them; `assumed` ends it.
void NameMeaning(const BoundArtifact& bound, uint64_t ranks, std::string_view assumed,
                 std::vector<std::string>& checks);

}  // namespace nxdkit::ops
