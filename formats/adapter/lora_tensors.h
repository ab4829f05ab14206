// PRIVATE: the weights of a base with an adapter added, as tensors that are computed when read.
// Only a part of A, a few rows of B and the requested values are held in memory.
#pragma once

#include <functional>
#include <memory>

#include "formats/artifact/canonical.h"

namespace nxdkit::adapter {

// The memory that a thread needs to read such tensors.
uint64_t MergedReadingBytes();

// Returns parameter i of the base, packed, in the dtype of base_plan.outputs[i]: F32 if the adapter
// has a pair for it, else the base's. The plans are canonical ones; all dtypes of adapter_plan are
// F32. The tensors are thread-safe and keep their sources alive.
using MergedTensors = std::function<StoredTensor(size_t param)>;
MergedTensors MakeMergedTensors(std::shared_ptr<const BoundArtifact> base, CanonicalPlan base_plan,
                                std::shared_ptr<const BoundArtifact> adapter,
                                CanonicalPlan adapter_plan);

}  // namespace nxdkit::adapter
