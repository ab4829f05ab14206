// PRIVATE to formats/ops/verify: which query head meets which key head, derived from the pieces of
// the bound layout.
#pragma once

#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"

namespace nxdkit::ops {

// For every rank and layer: each query head sits with its own key and value head, and o_proj's
// columns are those of the rank's query heads. Derived from where the pieces are.
std::vector<Finding> CheckMeaning(const BoundArtifact& artifact);

}  // namespace nxdkit::ops
