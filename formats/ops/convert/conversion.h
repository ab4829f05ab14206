// PRIVATE to formats/ops: a conversion, opened, decided and planned once; nothing is written yet.
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
  std::shared_ptr<Output> target;  // what was decided; of a delta nothing
  OutputPlan output;
  Plan plan;
  std::vector<PlannedFile> files;  // of the whole output, also when a part makes some of them
  // Of a delta: what its result is compared with. The source's parameters are numbered like these,
  // and the output's layout is this plan's.
  struct Base {
    BoundArtifact artifact;
    CanonicalPlan plan;
  };
  std::unique_ptr<const Base> base;
};

// kLimit also where memory holds the plan, but with --verify not what was written beside it: that
// is opened when everything is written.
Result<OutputPlan> PlanRequested(const ConvertRequest& request, const BoundArtifact& source,
                                 const Output& target);

// Source, specification and plan of the request.
Result<Conversion> PlanConversion(const ConvertRequest& request);

// Runs the conversion, which must outlive it and stay where it is.
Result<Executor> MakeExecutor(const Conversion& conversion, const RunOptions& run);

// Identifies the source's files as they are now, and the plan.
Result<std::string> Fingerprint(const Conversion& conversion, const Workload& workload);

// The base is opened as the input is when it is of the same kind, but for the tag.
InputHints BaseHints(const ConvertRequest& request, const Kind* kind);

DeltaReport ReportOf(const delta::Head& head);

}  // namespace nxdkit::ops
