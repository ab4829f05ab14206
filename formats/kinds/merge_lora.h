// PRIVATE to formats: a model with an adapter added.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

// The model is read as W + scale * B A, in F32, and rounded when it is written. kUnsupported for an
// embedding shared with the head, if the adapter does not share it.
Result<BoundArtifact> MergeLora(BoundArtifact base, const InputHints& hints);
// The same for an adapter that is bound against the base.
Result<BoundArtifact> MergeAdapter(BoundArtifact base, BoundArtifact adapter);

}  // namespace nxdkit::kinds
