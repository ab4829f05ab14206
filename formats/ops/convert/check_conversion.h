// PRIVATE to formats/ops: what is refused of a conversion before anything is written, and what was
// written held against its source.
#pragma once

#include "formats/hardware/fit.h"
#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// What shows without opening anything: options that do not go together, an output on its input.
Status CheckRequest(const ConvertRequest& request);

// What the plan shows (the output's place, a delta that does not fit), and then what the source
// holds: copies that differ, padding that is not zero, a damaged blob; with `verify` also damaged
// archives.
Status CheckConversion(const ConvertRequest& request, const Conversion& conversion);

// Whether it fits the memory of request.instance, which must be named: kFindings when not, with
// every reason, and the smallest instance on which it does; kUsage for an output that is not made
// for one.
Result<hardware::Fit> FitOf(const ConvertRequest& request, const Conversion& conversion);

// A warning where it does not fit request.here, which must be named; "" where it does, and where
// nothing can be said.
std::string MisfitHere(const ConvertRequest& request, const Conversion& conversion);

// What was made, opened like any other artifact: with `verify` compared with the source, and what
// was made from a delta held against the digest in it.
Status CheckWritten(const ConvertRequest& request, const Conversion& conversion,
                    const MadePlace& made, ConvertReport& report);

}  // namespace nxdkit::ops
