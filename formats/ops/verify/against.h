// PRIVATE to formats/ops/verify: an artifact against another, of any layout and element type.
#pragma once

#include "formats/artifact/bound.h"
#include "formats/ops/verify/verify.h"
#include "lib/sinks/compare_sink.h"

namespace nxdkit::ops {

// Compares every element of `artifact` with request.against, whose elements are rounded to its
// types. Where that finds more than the other way round, `artifact` is taken for what the other one
// was rounded from, and every element of the other is compared instead. Adds findings, checks and
// warnings to `report`; `seen` is shown what `artifact` stores.
Status VerifyAgainst(const VerifyRequest& request, const BoundArtifact& artifact,
                     const CompareSink::Seen& seen, VerifyReport& report);

}  // namespace nxdkit::ops
