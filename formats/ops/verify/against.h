// PRIVATE to formats/ops/verify: compares an artifact with another, of any layout and element type.
#pragma once

#include "formats/artifact/bound.h"
#include "formats/ops/verify/verify.h"
#include "lib/sinks/compare_sink.h"

namespace nxdkit::ops {

// Compares every element of `artifact` with request.against, whose elements are rounded to its
// types. If that finds more differences than the other way round, `artifact` is taken for the wider
// original of the other, and every element of the other is compared instead. Adds findings, checks
// and warnings to `report`; `seen` is called with the stored values of `artifact`.
Status VerifyAgainst(const VerifyRequest& request, const BoundArtifact& artifact,
                     const CompareSink::Seen& seen, VerifyReport& report);

}  // namespace nxdkit::ops
