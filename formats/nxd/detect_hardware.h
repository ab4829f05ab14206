// PRIVATE to formats/nxd. Which hardware a set is for, by the copies of its key heads.
#pragma once

#include <optional>
#include <vector>

#include "formats/nxd/detect.h"

namespace nxdkit::nxd {

// How the copies lie, read off the contents of one layer.
Result<ReplicaOrder> CompareReplicas(const ShardSet& set, const models::ModelConfig& config,
                                     const Geometry& geometry);

// Sets the hardware and the order of the replicas, as Detect says. The rest of the geometry is
// known, and heads can be placed with it.
Status DetectHardware(const ShardSet& set, const models::ModelConfig& config,
                      const std::vector<Claims>& claims,
                      std::optional<models::Hardware> hardware_if_unknown, Detected& detected);

}  // namespace nxdkit::nxd
