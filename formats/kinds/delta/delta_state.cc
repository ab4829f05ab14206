#include "formats/kinds/delta/delta_state.h"

namespace nxdkit::ops {

const DeltaState* DeltaStateOf(const Artifact& artifact) {
  return dynamic_cast<const DeltaState*>(artifact.state.get());
}

std::shared_ptr<const delta::Delta> DeltaOf(const Artifact& artifact) {
  const DeltaState* const state = DeltaStateOf(artifact);
  return state ? state->delta : nullptr;
}

}  // namespace nxdkit::ops
