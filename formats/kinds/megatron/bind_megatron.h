// PRIVATE to formats/kinds/megatron: the tensors of a checkpoint as the model's parameters, and the
// optimizer's state of them.
#pragma once

#include "formats/artifact/artifact.h"
#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

// kCorrupt if config.json and the arguments of the script disagree, naming both.
Status CheckArguments(const Artifact& artifact);

Status BindMegatron(BoundArtifact& bound, const InputHints& hints);

}  // namespace nxdkit::kinds
