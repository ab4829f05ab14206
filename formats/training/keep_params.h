// PRIVATE to formats/artifact: changes the logical parameters of a bound artifact.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// Removes the parameters that are not to be kept, and every tensor that stores one of them; the
// numbers in the optimizer's entries change accordingly. All of a tensor's parameters are kept, or
// none.
void KeepParams(BoundArtifact& artifact, const std::vector<bool>& keep);

// Calls `take` with every entry of the state, and those of the master weights.
void ForEachEntry(auto& optimizer, const auto& take) {
  for (auto& entries : optimizer.entries)
    if (entries) std::ranges::for_each(*entries, take);
  for (auto& master : optimizer.masters)
    if (master) take(*master);
}

// Stores a number as the entry's tensor without dimensions: a new logical parameter, named after
// model parameter `param`.
void StoreScalar(BoundArtifact& artifact, uint32_t param, OptimizerEntry& entry, Dtype dtype,
                 double value);

// The number in an entry without dimensions, a tensor or a plain one. kUnsupported for anything
// else.
Result<double> ScalarOf(const BoundArtifact& artifact, const OptimizerEntry& entry);

// Calls `change` with every step, its number and the model parameter's, and removes the tensors
// that no longer belong to an entry.
using ChangeStep = std::function<Status(uint32_t param, OptimizerEntry& entry, double step)>;
Status ChangeSteps(BoundArtifact& artifact, const ChangeStep& change);

// "model.norm.weight", or "model.norm.weight and 4 other parameters".
std::string NameSome(const BoundArtifact& artifact, const std::vector<size_t>& params);

void LeaveRun(BoundArtifact& artifact);  // Removes the tensors of the run's state.

// Removes everything that training continues from except the weights, if there is any; a warning
// gives the reason.
void LeaveState(BoundArtifact& artifact, std::string_view why);

}  // namespace nxdkit::training
