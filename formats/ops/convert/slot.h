// PRIVATE to formats/ops: new weights for a bundle that is in use, written into a slot, then made
// current by one rename.
#pragma once

#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// `conversion` must outlive it.
std::unique_ptr<Destination> MakeSlot(const ConvertRequest& request, Conversion& conversion);

}  // namespace nxdkit::ops
