// PRIVATE to formats and trainer: opens, binds and checks a rollout bundle.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/rollout/bundle.h"

namespace nxdkit::kinds {

Status OpenRollout(Artifact& artifact, const InputHints& hints);

Status BindRollout(BoundArtifact& out, const InputHints& hints);

// Checks configuration, dtypes, names, and nxdkit-cpu-plan.json.
std::vector<Finding> CheckRollout(const BoundArtifact& bound);
void NameRolloutChecks(const BoundArtifact& bound, uint64_t ranks,
                       std::vector<std::string>& checks);

// Compares nxdkit-cpu-plan.json of a bundle with its own configurations; no findings without a
// plan.
std::vector<Finding> CheckCpuPlan(const rollout::Bundle& bundle);

}  // namespace nxdkit::kinds
