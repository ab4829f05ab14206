// PRIVATE to formats/ops: whether what a conversion makes fits the memory of an instance.
#pragma once

#include "formats/hardware/fit.h"
#include "formats/ops/convert/conversion.h"

namespace nxdkit::ops {

// request.instance must be named. kFindings when it does not fit, with every reason, and the
// smallest instance on which it does; kUsage for an instance that is not known, and for an output
// that is not made for one.
Result<hardware::Fit> FitOf(const ConvertRequest& request, const Conversion& conversion);

}  // namespace nxdkit::ops
