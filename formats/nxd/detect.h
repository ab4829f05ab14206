// Learns the layout of an NxD set that carries no record of it: names and shapes prove most, the
// contents of key replicas tell trn1 from trn2, and options or our sidecar say the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/models/model.h"
#include "formats/nxd/nxd_layout.h"
#include "formats/nxd/shard_set.h"

namespace nxdkit::nxd {

// What somebody claims; absent: not claimed.
struct Claims : LayoutOptions {
  std::string origin;   // "the options", "nxdkit.json": for messages
  bool in_set = false;  // a file of the set says so: a contradiction is a fault of the set
};

// How the copies of key heads lie, read off the contents of one layer.
enum class ReplicaOrder : uint8_t { kNone, kTiled, kAdjacent, kBoth, kNeither };

struct Detected {
  Geometry geometry;
  ReplicaOrder replicas = ReplicaOrder::kNone;
  std::vector<std::string> warnings;  // what the set cannot tell and was assumed
};

// What names and shapes prove wins; a claim that contradicts it is kUsage and shows both. The
// virtual pipeline is proven by which layers lie where, unless the cuts are the trainer's own. With
// a kv multiplier above 1 the hardware must be claimed, unless the replicas are adjacent (only trn2
// does that): tiled replicas are right for trn1, but the reference converter writes them for trn2
// too, with queries in another order, and the set itself cannot tell. `hardware_if_unknown` is
// taken where the claim would be asked for. kCorrupt when the claimed hardware and the contents
// contradict each other.
Result<Detected> Detect(const ShardSet& set, const models::ModelConfig& config,
                        const std::vector<Claims>& claims,
                        std::optional<models::Hardware> hardware_if_unknown = std::nullopt);

}  // namespace nxdkit::nxd
