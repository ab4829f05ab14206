// PRIVATE to formats/kinds: where an NxD set stores every parameter.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::ops {

// With hints.optimizer the optimizer's state too.
Status BindNxd(BoundArtifact& out, const InputHints& hints);

}  // namespace nxdkit::ops
