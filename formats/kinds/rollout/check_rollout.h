// PRIVATE to formats: what only a rollout bundle can have wrong.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/rollout/bundle.h"

namespace nxdkit::ops {

// Configuration, dtypes, names, and nxdkit-cpu-plan.json.
std::vector<Finding> CheckRollout(const BoundArtifact& bound);
void NameRolloutChecks(const BoundArtifact& bound, uint64_t ranks,
                       std::vector<std::string>& checks);

// nxdkit-cpu-plan.json of a bundle against what its own configurations give; none without a plan.
std::vector<Finding> CheckCpuPlan(const rollout::Bundle& bundle);

}  // namespace nxdkit::ops
