// PRIVATE to formats: the optimizer state of an NxD tag, from files to logical parameters.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::ops {

// Adds the state of the tag's optimizer to a bound NxD set: files, layout, logical parameters. A
// tag without one stays as it is. kUnsupported where a number cannot be mapped to its parameter
// with certainty; kCorrupt for state that is not whole, which the known faulty writers leave.
Status BindOptimizer(BoundArtifact& out, const InputHints& hints);

}  // namespace nxdkit::ops
