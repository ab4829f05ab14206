// PRIVATE to formats/ops/verify: whether everything that the layout asks for is stored, by names
// and types.
#pragma once

#include <vector>

#include "formats/artifact/bind.h"
#include "formats/artifact/finding.h"

namespace nxdkit::ops {

// A fault of the artifact as a finding: its place, what is wrong and the hint.
Finding LayoutFinding(const Error& error);

// Parameters that are stored nowhere, names that not all ranks of a stage have, tensors that the
// ranks of a bundle lack or have in another type than its configuration says.
std::vector<Finding> CheckStructure(const BoundArtifact& artifact);

// Whether every tensor in the record that optimum-neuron's trainer left in an NxD set is stored,
// and cut as recorded; empty without a record.
std::vector<Finding> CheckMpRecord(const BoundArtifact& artifact);

}  // namespace nxdkit::ops
