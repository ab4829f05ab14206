// PRIVATE to formats/nxd. The hardware that a set is for, by the copies of its key heads.
#pragma once

#include <optional>
#include <vector>

#include "formats/nxd/detect.h"

namespace nxdkit::nxd {

// The order of the copies, from the contents of one layer.
Result<ReplicaOrder> CompareReplicas(const ShardSet& set, const models::ModelConfig& config,
                                     const Geometry& geometry);

// Sets the hardware and the order of the replicas, as documented at Detect. The rest of the
// geometry must be known, so that heads can be placed.
Status DetectHardware(const ShardSet& set, const models::ModelConfig& config,
                      const std::vector<Claims>& claims,
                      std::optional<models::Hardware> hardware_if_unknown, Detected& detected);

}  // namespace nxdkit::nxd
