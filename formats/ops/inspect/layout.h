// PRIVATE to formats/ops/inspect: whether what is stored fits the layout of the family, and what
// follows from that.
#pragma once

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::ops {

// Fills `layout`, `parameters`, and the facts that follow from a known layout. The artifact is as
// before, also when its layout does not fit. kUsage when an option contradicts the artifact.
Status InspectLayout(Inspection& inspection, const InspectRequest& request);

}  // namespace nxdkit::ops
