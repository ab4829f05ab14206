// PRIVATE to formats/kinds: the keys of a distributed checkpoint without what programs put
// around them. Source: torch's own tutorial of distributed checkpoints, which has one Stateful
// under "app" with "model" and "optim".
#pragma once

#include "formats/artifact/artifact.h"
#include "formats/models/model.h"

namespace nxdkit::ops {

// Gives the folder's tensors and objects the keys that they have without wrappers; a warning says
// which were left out. A checkpoint whose keys are plain, or would not be different from each other
// any more, stays as it is.
void UnwrapKeys(Artifact& artifact, const models::Model& model);

}  // namespace nxdkit::ops
