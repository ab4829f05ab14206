// A value saved by one rank: a nested dict as it is, its tensors plain or distributed.
#pragma once

#include <optional>
#include <vector>

#include "formats/dtensor/placed.h"
#include "formats/dtensor/value_path.h"
#include "formats/torch/archive.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::dtensor {

struct RankTensor {
  ValuePath path;
  StoredTensor stored;         // the rank's; without storage where it has no part of the tensor
  std::optional<Place> place;  // nullopt: a plain tensor
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

// Whether a value consists of numbers, strings and containers of them.
bool IsPlain(const torch::PickleValue& value);

// The values of an archive that was read with distributed tensors. Dicts are taken apart, and so
// are lists and tuples that contain tensors or dicts, as in torch's own checkpoints; the rest are
// objects. Errors have no path.
Result<RankValues> ValuesOf(const torch::Archive& archive);

}  // namespace nxdkit::dtensor
