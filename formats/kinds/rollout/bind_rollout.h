// PRIVATE to formats/kinds: where a rollout bundle stores every parameter.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::ops {

Status BindRollout(BoundArtifact& out, const InputHints& hints);

}  // namespace nxdkit::ops
