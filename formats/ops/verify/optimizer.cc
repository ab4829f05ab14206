#include "formats/ops/verify/optimizer.h"

#include <fmt/core.h>

#include <set>

#include "formats/artifact/optimizer/bind_optimizer.h"
#include "formats/ops/verify/checksums.h"
#include "formats/ops/verify/compare.h"

namespace nxdkit::ops {
namespace {

// The files of the optimizer, which come after the model's.
Artifact StateFiles(const BoundArtifact& training, size_t model_files) {
  Artifact state = training.artifact;
  const auto count = static_cast<std::ptrdiff_t>(model_files);
  state.files.erase(state.files.begin(), state.files.begin() + count);
  state.ranks.erase(state.ranks.begin(), state.ranks.begin() + count);
  return state;
}

Status CheckState(const BoundArtifact& training, size_t model_files, const RunOptions& run,
                  std::vector<Finding>& findings) {
  const Artifact state = StateFiles(training, model_files);
  std::set<std::string> files;
  for (const TensorFile& file : state.files) files.insert(file.path);
  NXDKIT_ASSIGN(std::vector<Finding> copies, CheckSelf(training, run));
  for (Finding& finding : copies)
    if (files.contains(finding.file)) findings.push_back(std::move(finding));
  NXDKIT_ASSIGN(std::vector<Finding> damaged, CheckChecksums(state, run));
  for (Finding& finding : damaged) findings.push_back(std::move(finding));
  return OkStatus();
}

}  // namespace

Status VerifyOptimizer(const BoundArtifact& model, const InputHints& hints, const RunOptions& run,
                       VerifyReport& report) {
  if (model.artifact.kind != Kind::kNxd || !model.model) return OkStatus();
  BoundArtifact training = model;
  Status bound = BindOptimizer(training, hints);
  if (bound.ok() && !training.optimizer) return OkStatus();
  if (bound.ok()) bound = CheckState(training, model.artifact.files.size(), run, report.findings);
  if (bound.ok()) {
    if (report.findings.empty())
      report.checks.push_back(
          fmt::format("the optimizer's state ({}, dp {}, order \"{}\") is whole, copies are "
                      "bit-equal, padding is zero",
                      nxd::OptimizerStyleName(training.optimizer->style), training.optimizer->dp,
                      nxd::GroupRuleName(training.optimizer->order.rule)));
    return OkStatus();
  }
  const Error& error = bound.error();
  if (error.code() == Errc::kCorrupt) {
    report.findings.push_back(Finding("optimizer", error.message())
                                  .in(error.file())
                                  .on(error.tensor())
                                  .at_rank(error.rank()));
    return OkStatus();
  }
  if (error.code() != Errc::kUnsupported) return bound;
  report.warnings.push_back("the optimizer's state is not checked: " + error.ToString());
  return OkStatus();
}

}  // namespace nxdkit::ops
