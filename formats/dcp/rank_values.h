// PRIVATE: what one rank has saved of an item with torch_checkpointing: a nested dict as it is, its
// tensors plain or distributed (DTensor).
#pragma once

#include <optional>
#include <vector>

#include "formats/dcp/rank_metadata.h"
#include "formats/dcp/sharding.h"
#include "formats/torch/archive.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::dcp {

// Where a DTensor says that it belongs.
struct OwnPlace {
  Sharding sharding;
  Shape coordinate;  // of the rank in the mesh
};

struct RankTensor {
  ValuePath path;
  StoredTensor stored;  // of the rank
  std::optional<OwnPlace> place;
};

struct RankObject {
  ValuePath path;
  torch::PickleValue value;
};

struct RankValues {
  std::vector<RankTensor> tensors;
  std::vector<RankObject> objects;
  std::vector<ValuePath> left_out;  // neither tensors nor plain data: devices, and other classes
};

// Of an archive that was read as distributed. Dicts are taken apart, and those lists and tuples
// that have tensors or dicts in them, as torch's own checkpoints do; what is left is an object.
// Errors have no path.
Result<RankValues> ValuesOf(const torch::Archive& archive);

}  // namespace nxdkit::dcp
