// The placement of a distributed tensor (DTensor) on a mesh of ranks, and a rank's part of it. The
// rule is torch's (torch/distributed/tensor/_utils.py): placements apply from left to right, each
// cutting the remainder of those before it into equal parts, the last ones shorter or empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/plan/layout.h"

namespace nxdkit::dtensor {

struct Placement {
  enum class Kind : uint8_t { kReplicate, kShard, kStridedShard };
  Kind kind = Kind::kReplicate;
  int64_t dim = 0;           // of the tensor, unless kReplicate
  int64_t split_factor = 1;  // kStridedShard: this placement acts inside so many cuts
  bool operator==(const Placement&) const = default;
};

// "Replicate, Shard(0)"
std::string PlacementText(const std::vector<Placement>& placements);

struct Sharding {
  Shape shape;                        // of the whole tensor
  Shape mesh;                         // ranks along each dimension of the mesh
  std::vector<Placement> placements;  // one for each mesh dimension
  bool operator==(const Sharding&) const = default;
};

// A part of a rank's tensor, and its box in the whole tensor.
struct Part {
  Box box;
  Shape local_lo;
  bool operator==(const Part&) const = default;
};

struct LocalShard {
  Shape shape;              // of the rank's tensor
  std::vector<Part> parts;  // none empty; more than one where a strided cut leaves gaps
};

// Neighbouring indices along one dimension.
struct Run {
  int64_t first = 0;
  int64_t count = 0;
};

// Part `index` of `parts` of a range, as torch.chunk cuts it: equal parts, the last ones shorter or
// empty.
Run PartOf(const Run& range, int64_t parts, int64_t index);

// kCorrupt for numbers that contradict each other.
Status CheckSharding(const Sharding& sharding);

// The shard of the rank at this place of the mesh. kUnsupported for an unreasonable number of
// parts.
Result<LocalShard> ShardAt(const Sharding& sharding, const Shape& coordinate);

}  // namespace nxdkit::dtensor
