// When attention weights differ from a reference: which head is where another one belongs.
#pragma once

#include <vector>

#include "formats/artifact/bind.h"
#include "formats/artifact/finding.h"

namespace nxdkit::ops {

// Extends the first finding of a q, k, v or o projection with the head that is really there, and
// with the cause, where the pattern is a known one.
Status ExplainHeads(const BoundArtifact& expected, const BoundArtifact& actual,
                    std::vector<Finding>& findings);

}  // namespace nxdkit::ops
