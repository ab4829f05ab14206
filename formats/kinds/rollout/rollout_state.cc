#include "formats/kinds/rollout/rollout_state.h"

namespace nxdkit::ops {

const rollout::Bundle* BundleOf(const Artifact& artifact) {
  const auto* const state = dynamic_cast<const RolloutState*>(artifact.state.get());
  return state ? &state->bundle : nullptr;
}

const rollout::Geometry* RolloutGeometryOf(const BoundArtifact& bound) {
  const auto* const layout = dynamic_cast<const RolloutLayout*>(bound.state.get());
  return layout ? &layout->geometry : nullptr;
}

}  // namespace nxdkit::ops
