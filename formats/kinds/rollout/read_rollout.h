// PRIVATE to formats and trainer: a rollout bundle, read: opened, bound, checked.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/rollout/bundle.h"

namespace nxdkit::ops {

Status OpenRollout(Artifact& artifact, const InputHints& hints);

Status BindRollout(BoundArtifact& out, const InputHints& hints);

// Configuration, dtypes, names, and nxdkit-cpu-plan.json.
std::vector<Finding> CheckRollout(const BoundArtifact& bound);
void NameRolloutChecks(const BoundArtifact& bound, uint64_t ranks,
                       std::vector<std::string>& checks);

// nxdkit-cpu-plan.json of a bundle against what its own configurations give; none without a plan.
std::vector<Finding> CheckCpuPlan(const rollout::Bundle& bundle);

}  // namespace nxdkit::ops
