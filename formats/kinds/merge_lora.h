// PRIVATE to formats. A model with an adapter added.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

// The model is read as W + scale * B A, in F32 and rounded where it is written.
// kUnsupported for an embedding that is shared with the head, which the adapter would not be.
Result<BoundArtifact> MergeLora(BoundArtifact base, const InputHints& hints);
// The same of an adapter that is bound against the base.
Result<BoundArtifact> MergeAdapter(BoundArtifact base, BoundArtifact adapter);

}  // namespace nxdkit::kinds
