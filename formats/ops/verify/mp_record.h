// PRIVATE to formats/ops/verify: an NxD set against the record that optimum-neuron's trainer left
// in it.
#pragma once

#include <vector>

#include "formats/artifact/bind.h"
#include "formats/artifact/finding.h"

namespace nxdkit::ops {

// Whether every recorded tensor is stored, and cut as recorded; empty without a record.
std::vector<Finding> CheckMpRecord(const BoundArtifact& artifact);

}  // namespace nxdkit::ops
