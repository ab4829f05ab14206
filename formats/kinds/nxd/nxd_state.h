// PRIVATE to formats: the state of an NxD set that other artifacts do not have.
#pragma once

#include <optional>

#include "formats/artifact/bound.h"
#include "formats/nxd/detect.h"
#include "formats/nxd/mp_metadata.h"
#include "formats/nxd/shard_set.h"
#include "formats/nxd/sidecar.h"

namespace nxdkit::kinds {

// Artifact::state, set by opening.
struct NxdState : KindState {
  nxd::ShardSet set;  // its shards' tensors are the artifact's files
  std::optional<nxd::Sidecar> sidecar;
  std::optional<nxd::MpRecord> mp_record;  // of optimum-neuron's trainer
};

// BoundArtifact::state, set by binding.
struct NxdLayout : KindState {
  nxd::Geometry geometry;
  nxd::ReplicaOrder replicas = nxd::ReplicaOrder::kNone;
};

const NxdState* NxdStateOf(const Artifact& artifact);  // nullptr if it is not an NxD set
const NxdLayout* NxdLayoutOf(const BoundArtifact& bound);

}  // namespace nxdkit::kinds
