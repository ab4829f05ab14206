// PRIVATE: the weights of a base with an adapter added, as tensors that compute what is read of
// them. Nothing is ever held but a part of A, a few rows of B and what was asked for.
#pragma once

#include <functional>
#include <memory>

#include "formats/artifact/canonical.h"

namespace nxdkit::adapter {

// Memory that a thread takes to read such tensors.
uint64_t MergedReadingBytes();

// Gives parameter i of the base, packed, in the dtype of base_plan.outputs[i]: F32 where the
// adapter has a pair for it, else as the base has it. The plans are canonical ones; all dtypes of
// adapter_plan are F32. The tensors are thread-safe and keep what they need alive.
using MergedTensors = std::function<StoredTensor(size_t param)>;
MergedTensors MakeMergedTensors(std::shared_ptr<const BoundArtifact> base, CanonicalPlan base_plan,
                                std::shared_ptr<const BoundArtifact> adapter,
                                CanonicalPlan adapter_plan);

}  // namespace nxdkit::adapter
