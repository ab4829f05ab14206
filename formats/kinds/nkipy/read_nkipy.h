// PRIVATE to formats/kinds: opens, binds and checks the rank files of vLLM with NKIPy.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/nkipy/layout.h"
#include "lib/system/looker.h"

namespace nxdkit::kinds {

// Such a folder has a shard_0.safetensors.
Result<bool> IsNkipyFolder(const std::string& path, const Looker& look);
Status OpenNkipy(Artifact& artifact, const InputHints& hints);

Status BindNkipy(BoundArtifact& out, const InputHints& hints);

// Tensors that a rank lacks.
std::vector<Finding> CheckNkipy(const BoundArtifact& bound);
void NameNkipyChecks(const BoundArtifact& bound, uint64_t ranks, std::vector<std::string>& checks);

}  // namespace nxdkit::kinds
