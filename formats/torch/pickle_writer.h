// PRIVATE: a value as a pickle of protocol 2, spelled byte for byte as Python's pickler under
// torch.save spells it. Nothing of it needs more than torch.load(weights_only=True) allows.
#pragma once

#include <string>
#include <vector>

#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"
#include "lib/tensor/output.h"

namespace nxdkit::torch {

// TensorIndex i of the value stands for tensors[i], whose storage gets the key "i". A list or dict
// that is shared (the same object in two places), or a tensor used twice, is written once.
// kUnsupported: opaque objects, dtypes that torch cannot save, nesting over kMaxNesting.
Result<std::string> WritePickle(const PickleValue& root, const std::vector<OutputTensor>& tensors);

}  // namespace nxdkit::torch
