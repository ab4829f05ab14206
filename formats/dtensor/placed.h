// A distributed tensor as a rank pickles it: the rank's own tensor, and its place in the whole.
// DTensor of torch 2.4 to 2.15, and ShardedTensor, its predecessor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "formats/dtensor/mesh.h"
#include "formats/dtensor/sharding.h"
#include "formats/torch/archive.h"

namespace nxdkit::dtensor {

// A tensor's recorded placement.
struct Place {
  Shape shape;  // of the whole tensor
  LocalShard shard;
  std::shared_ptr<const DeviceMesh> mesh;  // null: a ShardedTensor, which records its own boxes
  std::vector<Placement> placements;       // one for each dimension of the mesh
};

struct PlacedTensor {
  StoredTensor stored;  // the rank's
  Place place;
};

// A mesh is read once, however many tensors are placed on it.
class PlacedReader {
 public:
  explicit PlacedReader(const torch::Archive& archive) : archive_(archive) {}

  // Whether a value of the archive stands for a distributed tensor.
  static bool IsPlaced(const torch::PickleValue& value);

  // The rank's tensors of a value: one, or for a ShardedTensor as many as it lists. kUnsupported
  // naming another placement, or a mesh of another form; kCorrupt for contradictions.
  Result<std::vector<PlacedTensor>> Read(const torch::PickleValue& value);

 private:
  Result<PlacedTensor> ReadDTensor(const torch::PickleValue& slots);
  Result<std::vector<PlacedTensor>> ReadSharded(const torch::PickleList& state);
  Result<std::shared_ptr<const DeviceMesh>> MeshIn(const torch::PickleValue* value);

  const torch::Archive& archive_;
  uint64_t ranks_read_ = 0;
  std::map<const torch::PickleRecord*, std::shared_ptr<const DeviceMesh>> meshes_;
};

}  // namespace nxdkit::dtensor
