// PRIVATE to formats: what is known of an NxD set beside what all artifacts have.
#pragma once

#include <optional>

#include "formats/artifact/bound.h"
#include "formats/nxd/detect.h"
#include "formats/nxd/mp_metadata.h"
#include "formats/nxd/shard_set.h"
#include "formats/nxd/sidecar.h"

namespace nxdkit::kinds {

// Artifact::state, from opening on.
struct NxdState : KindState {
  nxd::ShardSet set;  // its shards' tensors are the artifact's files
  std::optional<nxd::Sidecar> sidecar;
  std::optional<nxd::MpRecord> mp_record;  // of optimum-neuron's trainer
};

// BoundArtifact::state, from binding on.
struct NxdLayout : KindState {
  nxd::Geometry geometry;
  nxd::ReplicaOrder replicas = nxd::ReplicaOrder::kNone;
};

const NxdState* NxdStateOf(const Artifact& artifact);  // nullptr where it is no NxD set.
const NxdLayout* NxdLayoutOf(const BoundArtifact& bound);

}  // namespace nxdkit::kinds
