// PRIVATE to formats/ops/verify: whether everything in the layout is stored, by names and types,
// and which query head meets which key head.
#pragma once

#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"

namespace nxdkit::ops {

// A fault of the artifact as a finding: its place, the message and the hint.
Finding LayoutFinding(const Error& error);

// Parameters that are not stored, names that not all ranks of a stage have.
std::vector<Finding> CheckStructure(const BoundArtifact& artifact);

// For every rank and layer: each query head is with its own key and value head, and o_proj's
// columns are those of the rank's query heads. Derived from where the pieces are.
std::vector<Finding> CheckMeaning(const BoundArtifact& artifact);

}  // namespace nxdkit::ops
