// PRIVATE: a delta as an artifact like any other: its parameters are those of its base, changed as
// they are read.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::ops {

// Binds out.artifact, a kDelta, and its base. kFindings when the base is not the delta's.
Status BindDelta(BoundArtifact& out, const InputHints& hints);

}  // namespace nxdkit::ops
