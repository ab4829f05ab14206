// PRIVATE to formats/kinds: tensors that have the names of the parameters, each whole.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::ops {

Status BindHf(BoundArtifact& out, const InputHints& hints);

}  // namespace nxdkit::ops
