// PRIVATE to formats/kinds/dcp: a distributed checkpoint, from logical parameters to files.
#pragma once

#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

// The dtype of each model parameter as it is stored.
std::vector<Dtype> WeightDtypes(const BoundArtifact& source);

}  // namespace nxdkit::kinds
