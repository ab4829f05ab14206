// PRIVATE to formats/ops/verify: ckpt-verify's part on optim/ of a training tag.
#pragma once

#include "formats/artifact/bind.h"
#include "formats/ops/verify/verify.h"

namespace nxdkit::ops {

// Everything that nxd-reshard would refuse of the state beside the weights of `model`: what is not
// whole, copies that differ, padding that is not zero, damaged archives are findings; a form that
// cannot be mapped is a warning, because it is not wrong. A tag without state, and anything but an
// NxD set, is fine. `model` must have no findings of its own.
Status VerifyOptimizer(const BoundArtifact& model, const InputHints& hints, const RunOptions& run,
                       VerifyReport& report);

}  // namespace nxdkit::ops
