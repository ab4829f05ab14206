// PRIVATE to formats and trainer: what is known of a rollout bundle beside what all artifacts have.
#pragma once

#include "formats/artifact/bound.h"
#include "formats/rollout/bundle.h"
#include "formats/rollout/rollout_layout.h"

namespace nxdkit::kinds {

// Artifact::state, from opening on.
struct RolloutState : KindState {
  explicit RolloutState(rollout::Bundle opened) : bundle(std::move(opened)) {}
  rollout::Bundle bundle;  // its shards are the artifact's files
};

// BoundArtifact::state, from binding on.
struct RolloutLayout : KindState {
  rollout::Geometry geometry;
};

// nullptr where it is no rollout bundle.
const rollout::Bundle* BundleOf(const Artifact& artifact);
const rollout::Geometry* RolloutGeometryOf(const BoundArtifact& bound);

}  // namespace nxdkit::kinds
