// What one rank has saved as one value: a nested dict as it is, its tensors plain or distributed.
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
  StoredTensor stored;         // of the rank; without storage where it has nothing of the tensor
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

// Whether a value is numbers, strings and containers of them.
bool IsPlain(const torch::PickleValue& value);

// Of an archive that was read as distributed. Dicts are taken apart, and those lists and tuples
// that have tensors or dicts in them, as torch's own checkpoints do; what is left is an object.
// Errors have no path.
Result<RankValues> ValuesOf(const torch::Archive& archive);

}  // namespace nxdkit::dtensor
