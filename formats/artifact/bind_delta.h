// A delta as an artifact like any other: its parameters are those of its base, changed as they are
// read.
#pragma once

#include "formats/artifact/artifact.h"
#include "formats/artifact/run.h"

namespace nxdkit::ops {

// Binds out.artifact, a kDelta, and its base. kFindings when the base is not the delta's.
Status BindDelta(BoundArtifact& out, const InputHints& hints);

// What was made of a delta and its base, bound: sound, and every parameter's digest the one that
// the delta promises. kFindings naming the first that is not.
Status RequireResult(const delta::Head& promised, const BoundArtifact& made, const RunOptions& run);

}  // namespace nxdkit::ops
