// The steps that a conversion and a refresh share.
#pragma once

#include <string>

#include "formats/ops/convert/convert.h"

namespace nxdkit::ops {

// Everything decided and planned, nothing written.
struct Prepared {
  BoundArtifact source;
  OutputSpec spec;
  OutputPlan output;
  Plan plan;
};
Result<Prepared> Prepare(const ConvertRequest& request);

// Of the executor that makes `prepared`.
Result<ExecuteOptions> OptionsFor(const Prepared& prepared, const RunOptions& run);

// What is refused of the source: a delta that does not fit, copies that differ, padding that is not
// zero; with --verify also damaged archives.
Status CheckSource(const Prepared& prepared, const ConvertRequest& request);

// Prepare, with all that is refused before anything is written.
Result<Prepared> PrepareChecked(const ConvertRequest& request);

Status CheckDelta(const Prepared& prepared);
DeltaReport ReportOf(const delta::Head& head);
// Of the adapter that is merged into the source, or that the source is.
std::optional<LoraReport> LoraReportOf(const BoundArtifact& source);

// Identifies the source's files as they are now, and the plan.
std::string Fingerprint(const Prepared& prepared, const Workload& workload);

// Configuration and tokenizer files; markers last.
Status WriteSideFiles(const OutputPlan& output, const std::string& folder, bool sync);

ConvertReport MakeReport(const Prepared& prepared, const ConvertRequest& request,
                         const Workload& workload);

// Runs the executor into the sink and finishes the files; what a narrower dtype cannot hold becomes
// a warning.
Status RunTasks(const Prepared& prepared, const ConvertRequest& request, const Executor& executor,
                WriteSink& sink, ConvertReport& report);

// Where nobody sees it half written.
Status WriteText(const std::string& path, const std::string& contents, bool sync);

// What was written, opened like any other artifact: with `verify` compared with the source, and
// what was made from a delta held against the digest in it. `weights` as in InputHints.
Status CheckWritten(const Prepared& prepared, const ConvertRequest& request,
                    const std::string& place, const std::string& weights, ConvertReport& report);

// A request with `into`.
Result<ConvertReport> RefreshDryRun(const ConvertRequest& request);
Result<ConvertReport> Refresh(const ConvertRequest& request);
// A request to kDelta.
Result<ConvertReport> MakeDelta(const ConvertRequest& request);

}  // namespace nxdkit::ops
