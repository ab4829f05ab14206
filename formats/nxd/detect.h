// Detects the layout of an NxD set that has no record of it: names and shapes prove most, the
// contents of key replicas tell trn1 from trn2, and options or our sidecar supply the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/models/model.h"
#include "formats/nxd/nxd_layout.h"
#include "formats/nxd/shard_set.h"

namespace nxdkit::nxd {

// Claims about the layout by one source; absent: not claimed.
struct Claims : LayoutOptions {
  std::string origin;   // "the options", "nxdkit.json": for messages
  bool in_set = false;  // the source is a file of the set: a contradiction is a fault of the set
};

// The order of the copies of key heads, found by comparing the contents of one layer.
enum class ReplicaOrder : uint8_t { kNone, kTiled, kAdjacent, kBoth, kNeither };

struct Detected {
  Geometry geometry;
  ReplicaOrder replicas = ReplicaOrder::kNone;
  std::vector<std::string> warnings;  // assumptions about properties that the set does not show
};

// Properties proven by names and shapes win; a claim that contradicts them is kUsage and shows
// both. The virtual pipeline is proven by the placement of the layers, unless the cuts are the
// trainer's own. With a kv multiplier above 1 the hardware must be claimed, unless the replicas are
// adjacent (only trn2 does that): tiled replicas are right for trn1, but the reference converter
// writes them for trn2 too, with queries in another order, and the set itself cannot tell.
// `hardware_if_unknown` replaces a missing claim. kCorrupt when the claimed hardware and the
// contents contradict each other.
Result<Detected> Detect(const ShardSet& set, const models::ModelConfig& config,
                        const std::vector<Claims>& claims,
                        std::optional<models::Hardware> hardware_if_unknown = std::nullopt);

}  // namespace nxdkit::nxd
