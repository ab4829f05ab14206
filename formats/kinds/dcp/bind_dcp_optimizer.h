// PRIVATE to formats/kinds: the optimizer's state of a distributed checkpoint. It is kept by
// parameter, in the names that the parameters have there (formats/training/state_keys.h).
#pragma once

#include "formats/artifact/bound.h"
#include "formats/kinds/dcp/dcp_tensors.h"

namespace nxdkit::ops {

// Binds it into `out`, whose model is bound; nothing when there is no optimizer. Of a parameter
// whose state has two names both are bound, as copies.
// kCorrupt for state of no parameter's shape, and for two names that disagree; kUnsupported for
// state of a parameter that is not known.
Status BindDcpOptimizer(BoundArtifact& out, const DcpTensors& known);

}  // namespace nxdkit::ops
