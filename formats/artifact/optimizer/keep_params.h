// PRIVATE to formats/artifact/optimizer: a bound artifact whose logical parameters change.
#pragma once

#include <vector>

#include "formats/artifact/bind.h"

namespace nxdkit::ops {

// Leaves out the parameters that are not to be kept, and every tensor that stores one of them; the
// numbers that the optimizer's entries have change with it. All of a tensor's parameters are kept,
// or none.
void KeepParams(BoundArtifact& artifact, const std::vector<bool>& keep);

// Stores a number as the entry's tensor without dimensions: a new logical parameter, named after
// model parameter `param`.
void StoreScalar(BoundArtifact& artifact, uint32_t param, OptimizerEntry& entry, Dtype dtype,
                 double value);

// The number that an entry without dimensions holds, a tensor or a plain one. kUnsupported for
// anything else.
Result<double> ScalarOf(const BoundArtifact& artifact, const OptimizerEntry& entry);

}  // namespace nxdkit::ops
