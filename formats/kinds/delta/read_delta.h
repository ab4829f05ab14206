// PRIVATE to formats: a delta as an ordinary artifact: its parameters are those of its base,
// changed while they are read.
#pragma once

#include <memory>

#include "formats/artifact/bound.h"
#include "formats/delta/delta.h"

namespace nxdkit::kinds {

struct DeltaState : KindState {
  DeltaState(std::shared_ptr<const delta::Delta> opened, Artifact changed)
      : delta(std::move(opened)), base(std::move(changed)) {}
  std::shared_ptr<const delta::Delta> delta;  // the artifact's files are the base's and the delta
  Artifact base;
};

const DeltaState* DeltaStateOf(const Artifact& artifact);  // nullptr if it is not a delta
std::shared_ptr<const delta::Delta> DeltaOf(const Artifact& artifact);

// Binds out.artifact, a kDelta, and its base. kFindings if the base is not the delta's.
Status BindDelta(BoundArtifact& out, const InputHints& hints);

}  // namespace nxdkit::kinds
