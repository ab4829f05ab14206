// PRIVATE to formats/artifact: the optimizer's state of a distributed checkpoint. It is kept by
// parameter, in the names that the parameters have there (dcp_keys.h).
#pragma once

#include <string_view>

#include "formats/artifact/bind.h"
#include "formats/artifact/optimizer/dcp_keys.h"

namespace nxdkit::ops {

// Whether a training run saves it beside model and optimizer, and no parameter is in it.
bool IsRunState(std::string_view key);

// Binds it into `out`, whose model is bound, and with it the tensors of the run's state; nothing
// when there is no optimizer. Of a parameter whose state has two names both are bound, as copies.
// kCorrupt for state of no parameter's shape, and for two names that disagree; kUnsupported for
// state of a parameter that is not known.
Status BindDcpOptimizer(BoundArtifact& out, const DcpTensors& known);

}  // namespace nxdkit::ops
