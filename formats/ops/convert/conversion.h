// PRIVATE to formats/ops: a conversion that is opened, decided and planned once; nothing is written
// yet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/artifact/canonical.h"
#include "formats/kinds/builder.h"
#include "formats/ops/convert/convert.h"

namespace nxdkit::ops {

struct PlannedFile {
  std::string path;
  uint64_t bytes = 0;
};

struct Conversion {
  BoundArtifact source;
  std::shared_ptr<Output> target;  // the decided output; for a delta, none
  OutputPlan output;
  Plan plan;
  std::vector<PlannedFile> files;  // of the whole output, even if a part makes only some
  // The base of a delta, with which the result is compared. The source's parameters are numbered
  // like these, and the output's layout is this plan's.
  struct Base {
    BoundArtifact artifact;
    CanonicalPlan plan;
  };
  std::unique_ptr<const Base> base;
};

// kLimit also if memory can hold the plan, but with --verify not the written output besides, which
// is opened when everything is written.
Result<OutputPlan> PlanRequested(const ConvertRequest& request, const BoundArtifact& source,
                                 const Output& target);

// Source, output and plan of the request.
Result<Conversion> PlanConversion(const ConvertRequest& request);

// The executor for the conversion, which must outlive it and stay in place.
Result<Executor> MakeExecutor(const Conversion& conversion, const RunOptions& run);

// Identifies the source's files in their current state, and the plan.
Result<std::string> Fingerprint(const Conversion& conversion, const Workload& workload);

// The base is opened with the hints of the input if both are of the same kind, except for the tag.
InputHints BaseHints(const ConvertRequest& request, const Kind* kind);

DeltaReport ReportOf(const delta::Head& head);

}  // namespace nxdkit::ops
