// PRIVATE to formats/ops: refuses a conversion before anything is written, and compares the written
// output with its source.
#pragma once

#include "formats/hardware/fit.h"
#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// Errors that show without opening anything: options that exclude each other, an output on its
// input.
Status CheckRequest(const ConvertRequest& request);

// Errors that the plan shows (the output's place, a delta that does not fit), and then those in the
// source's contents: copies that differ, padding that is not zero, a damaged blob; with `verify`
// also damaged archives.
Status CheckConversion(const ConvertRequest& request, const Conversion& conversion);

// Whether it fits the memory of request.instance, which must be given: kFindings if not, with every
// reason, and the smallest instance on which it does; kUsage for an output that is not made for
// one.
Result<hardware::Fit> FitOf(const ConvertRequest& request, const Conversion& conversion);

// A warning if it does not fit request.here, which must be given; "" if it does, and if it cannot
// be told.
std::string MisfitHere(const ConvertRequest& request, const Conversion& conversion);

// Opens the written output like any other artifact: with `verify` it is compared with the source,
// and the result of a delta with the digest in it.
Status CheckWritten(const ConvertRequest& request, const Conversion& conversion,
                    const MadePlace& made, ConvertReport& report);

}  // namespace nxdkit::ops
