// PRIVATE to formats/artifact: a bound artifact whose logical parameters change.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// Leaves out the parameters that are not to be kept, and every tensor that stores one of them; the
// numbers that the optimizer's entries have change with it. All of a tensor's parameters are kept,
// or none.
void KeepParams(BoundArtifact& artifact, const std::vector<bool>& keep);

// Every entry of the state, and those of the master weights.
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

// The number that an entry without dimensions holds, a tensor or a plain one. kUnsupported for
// anything else.
Result<double> ScalarOf(const BoundArtifact& artifact, const OptimizerEntry& entry);

// Shows `change` every step, with its number and the model parameter's, and leaves out the tensors
// that are not an entry's any more.
using ChangeStep = std::function<Status(uint32_t param, OptimizerEntry& entry, double step)>;
Status ChangeSteps(BoundArtifact& artifact, const ChangeStep& change);

// "model.norm.weight", or "model.norm.weight and 4 other parameters".
std::string NameSome(const BoundArtifact& artifact, const std::vector<size_t>& params);

void LeaveRun(BoundArtifact& artifact);  // Leaves out the tensors of the run's state.

// Leaves out all that training goes on from but the weights, where there is some; a warning says so
// and why.
void LeaveState(BoundArtifact& artifact, std::string_view why);

}  // namespace nxdkit::training
