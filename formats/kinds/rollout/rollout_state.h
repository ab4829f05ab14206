// PRIVATE to formats and trainer: the state of a rollout bundle that other artifacts do not have.
#pragma once

#include "formats/artifact/bound.h"
#include "formats/rollout/bundle.h"
#include "formats/rollout/rollout_layout.h"

namespace nxdkit::kinds {

// Artifact::state, set by opening.
struct RolloutState : KindState {
  explicit RolloutState(rollout::Bundle opened) : bundle(std::move(opened)) {}
  rollout::Bundle bundle;  // its shards are the artifact's files
};

// BoundArtifact::state, set by binding.
struct RolloutLayout : KindState {
  rollout::Geometry geometry;
};

// nullptr if it is not a rollout bundle.
const rollout::Bundle* BundleOf(const Artifact& artifact);
const rollout::Geometry* RolloutGeometryOf(const BoundArtifact& bound);

}  // namespace nxdkit::kinds
