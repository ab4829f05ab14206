// A distributed tensor as a rank pickles it: the rank's own tensor, and where it belongs. DTensor
// of torch 2.4 to 2.15, and ShardedTensor, which came before it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "formats/dtensor/mesh.h"
#include "formats/dtensor/sharding.h"
#include "formats/torch/archive.h"

namespace nxdkit::dtensor {

// What a tensor says of itself.
struct Place {
  Shape shape;  // of the whole tensor
  LocalShard shard;
  std::shared_ptr<const DeviceMesh> mesh;  // null: a ShardedTensor, which says its boxes itself
  std::vector<Placement> placements;       // one for each dimension of the mesh
};

struct PlacedTensor {
  StoredTensor stored;  // of the rank
  Place place;
};

// A mesh is read once, however many tensors lie on it.
class PlacedReader {
 public:
  explicit PlacedReader(const torch::Archive& archive) : archive_(archive) {}

  // Whether a value of the archive stands for a distributed tensor.
  static bool IsPlaced(const torch::PickleValue& value);

  // The tensors that the rank has of it: one, or of a ShardedTensor as many as it says.
  // kUnsupported naming another placement, or a mesh of another form; kCorrupt for what contradicts
  // itself.
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
