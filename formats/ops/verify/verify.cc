#include "formats/ops/verify/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/ops/verify/against.h"
#include "formats/ops/verify/blob.h"
#include "formats/ops/verify/check_values.h"
#include "formats/ops/verify/checksums.h"
#include "formats/ops/verify/compare.h"
#include "formats/ops/verify/fitness.h"
#include "formats/ops/verify/structure.h"
#include "formats/training/check_adam.h"
#include "formats/training/check_masters.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

// Whether it is a fault of the artifact rather than of the request: wrong shapes, names or
// replicas.
bool IsFinding(const Error& error) {
  return error.code() == Errc::kCorrupt ||
         (error.code() == Errc::kUnsupported && !error.tensor().empty());
}

template <typename T>
void Append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Without a parameter table only files, names and values can be checked, against another artifact.
Status RequireModel(const BoundArtifact& artifact, const VerifyRequest& request) {
  if (artifact.model || request.against) return OkStatus();
  const Artifact& opened = artifact.artifact;
  if (!opened.config)
    return NotFound("no config.json: the tensors that this must have are not known")
        .in(opened.path)
        .hint("name one with --config, or compare with --against");
  return Unsupported("its structure cannot be verified: {}",
                     opened.config->family ? "it is read as stored, with a LoRA adapter"
                                           : NoTableText(*opened.config))
      .in(opened.config_path)
      .hint("compare with --against");
}

void NameChecks(const BoundArtifact& artifact, VerifyReport& report) {
  if (!artifact.model) {
    report.warnings.push_back(fmt::format(
        "{}: no parameter table: whether it is complete, and its shapes, are not checked",
        artifact.artifact.path));
    return;
  }
  report.checks.push_back(fmt::format(
      "structure: {} in {}, all {} complete, shapes and "
      "dtypes as laid out",
      Counted(report.tensors, "tensor"), Counted(artifact.artifact.files.size(), "file"),
      Counted(artifact.params.size(), "parameter")));
  for (const std::string& proof : artifact.artifact.proofs) report.checks.push_back(proof);
  const size_t archives = ArchivesWithChecksums(artifact.artifact).size();
  if (archives > 0)
    report.checks.push_back("the checksums of " + Counted(archives, "torch archive") + " hold");
  const Kind& kind = *artifact.artifact.kind;
  if (kind.name_checks) kind.name_checks(artifact, report.ranks, report.checks);
}

void Count(const BoundArtifact& artifact, VerifyReport& report) {
  for (const LogicalTensor& param : artifact.params)
    report.parameters += static_cast<uint64_t>(*ElementCount(param.shape));
  for (const LayoutFile& file : artifact.artifact.ranks)
    report.ranks = std::max(report.ranks, static_cast<uint64_t>(file.tp_rank + 1));
}

// Checks it by itself, without the checksums. False if there is nothing more to check.
Result<bool> CheckAlone(const BoundArtifact& artifact, const RunOptions& run,
                        VerifyReport& report) {
  Append(report.findings, CheckStructure(artifact));
  if (artifact.artifact.kind->check)
    Append(report.findings, artifact.artifact.kind->check(artifact));
  if (const rollout::Bundle* bundle = BundleOf(artifact.artifact))
    NXDKIT_TRY(CheckBlobs(*bundle, run.poll, report));
  Append(report.findings, CheckMeaning(artifact));
  Result<std::vector<Finding>> self = CheckSelf(artifact, run);
  if (self.ok()) {
    Append(report.findings, *std::move(self));
    return true;
  }
  if (!IsFinding(self.error())) return std::move(self).error();
  // Missing parameters were reported above, with their ranks.
  if (report.findings.empty()) report.findings.push_back(LayoutFinding(self.error()));
  return false;
}

// --- optim/ of a training tag

// The files of the optimizer, which come after the model's.
Artifact StateFiles(const BoundArtifact& training, size_t model_files) {
  Artifact state = training.artifact;
  const auto count = static_cast<std::ptrdiff_t>(model_files);
  state.files.erase(state.files.begin(), state.files.begin() + count);
  state.ranks.erase(state.ranks.begin(), state.ranks.begin() + count);
  return state;
}

// NaNs and infinities in the tensors after the model's.
Status CheckStateValues(const BoundArtifact& model, const BoundArtifact& training,
                        const RunOptions& run, std::vector<Finding>& findings) {
  ValueCheck values(training);
  NXDKIT_TRY(values.Read(run, model.bound.stored.size()));
  Append(findings, values.Findings());
  return OkStatus();
}

Status CheckState(const BoundArtifact& model, const BoundArtifact& training, bool look,
                  const RunOptions& run, std::vector<Finding>& findings) {
  const size_t model_files = model.artifact.files.size();
  const Artifact state = StateFiles(training, model_files);
  DeferChecksums(state);
  std::set<std::string> files;
  for (const TensorFile& file : state.files) files.insert(file.path);
  NXDKIT_ASSIGN(std::vector<Finding> copies, CheckSelf(training, run));
  for (Finding& finding : copies)
    if (files.contains(finding.file)) findings.push_back(std::move(finding));
  if (look) NXDKIT_TRY(CheckStateValues(model, training, run, findings));
  NXDKIT_ASSIGN(std::vector<Finding> damaged, CheckChecksums(state, run));
  Append(findings, std::move(damaged));
  return OkStatus();
}

// A weight that is not its own master rounded: either it was changed since, or number and name do
// not belong together. A few are a warning, and so is another way of rounding; most are a finding.
Status CheckMasters(const BoundArtifact& training, size_t model_files, const RunOptions& run,
                    VerifyReport& report) {
  const auto has = [](const auto& master) { return master.has_value(); };
  if (std::ranges::none_of(training.optimizer->masters, has)) return OkStatus();
  NXDKIT_ASSIGN(const std::vector<Finding> others, CompareMasters(training, model_files, run));
  if (others.empty()) {
    report.checks.push_back("the weights are the master weights, rounded to nearest even");
    return OkStatus();
  }
  NXDKIT_ASSIGN(const MasterCheck sample, SampleMasters(training));
  if (sample.mostly_others()) {
    const LogicalTensor& param = training.params[sample.faults.front().param];
    report.findings.push_back(Finding("master weights", FaultText(sample, training))
                                  .in(training.artifact.path)
                                  .on(param.name)
                                  .of(param.name));
    return OkStatus();
  }
  const Finding& first = others.front();
  report.warnings.push_back(fmt::format(
      "{} of the model's tensors are not their master weights rounded: {}: {}: {}; either the "
      "weights were changed after the last step, or the optimizer's numbers belong to other "
      "parameters",
      others.size(), first.file, first.tensor, first.message));
  return OkStatus();
}

// Parameters that have some of these entries, but not all.
std::vector<Finding> CheckAdamEntries(const BoundArtifact& training) {
  std::vector<Finding> findings;
  const BoundOptimizer& optimizer = *training.optimizer;
  for (uint32_t i = 0; i < optimizer.entries.size(); ++i) {
    const auto is_kept = [&](std::string_view name) { return optimizer.Find(i, name) != nullptr; };
    if (std::ranges::none_of(training::kAdamEntries, is_kept)) continue;
    for (const std::string_view name : training::kAdamEntries)
      if (!is_kept(name))
        findings.push_back(
            Finding("optimizer",
                    fmt::format("the optimizer has no {} for it, but other entries of Adam", name))
                .in(training.artifact.path)
                .on(training.params[i].name)
                .of(training.params[i].name));
  }
  return findings;
}

void CountState(const BoundArtifact& training, VerifyReport& report) {
  // Tensors carried next to the model's parameters are not trained.
  const auto entries = std::span(training.optimizer->entries)
                           .first(training.optimizer->entries.size() - training.carried.size());
  const auto missing = std::ranges::find_if(entries, [](const auto& e) { return !e.has_value(); });
  const auto count = std::ranges::count_if(entries, [](const auto& e) { return e.has_value(); });
  report.checks.push_back(fmt::format("the optimizer's state is complete for {} of {}",
                                      Grouped(count), Counted(entries.size(), "parameter")));
  if (missing == entries.end()) return;
  report.warnings.push_back(
      fmt::format("{} of {} parameters have no optimizer state, the first is {}",
                  static_cast<std::ptrdiff_t>(entries.size()) - count, entries.size(),
                  training.params[static_cast<size_t>(missing - entries.begin())].name));
}

// Weights that are not their rounded master weights are findings.
Status CompareWithMasters(const BoundArtifact& training, const RunOptions& run,
                          VerifyReport& report) {
  const auto has = [](const auto& master) { return master.has_value(); };
  if (std::ranges::none_of(training.optimizer->masters, has)) return OkStatus();
  NXDKIT_ASSIGN(std::vector<Finding> others,
                CompareMasters(training, training.artifact.files.size(), run));
  if (others.empty())
    report.checks.push_back("the weights are the master weights, rounded to nearest even");
  Append(report.findings, std::move(others));
  return OkStatus();
}

// Checks the state that a checkpoint by names keeps next to the weights. It is opened again: files
// with only state must be there and complete then.
Status VerifyNamedState(const BoundArtifact& model, const InputHints& hints, bool look,
                        const RunOptions& run, VerifyReport& report) {
  InputHints with_state = hints;
  with_state.optimizer = true;
  const Artifact& artifact = model.artifact;
  Result<Artifact> again = OpenArtifact(artifact.path, artifact.kind, with_state, artifact.look);
  const Result<BoundArtifact> training =
      again.ok() ? Bind(*std::move(again), with_state) : std::move(again).error();
  if (!training.ok()) {
    const Error& error = training.error();
    if (error.code() == Errc::kUnsupported) {
      report.warnings.push_back("the optimizer's state is not checked: " + error.ToString());
      return OkStatus();
    }
    if (!IsFinding(error)) return error;
    report.findings.push_back(LayoutFinding(training.error()));
    return OkStatus();
  }
  if (!training->optimizer) return OkStatus();
  std::vector<Finding> findings = CheckAdamEntries(*training);
  NXDKIT_ASSIGN(std::vector<Finding> copies, CheckSelf(*training, run));
  Append(findings, std::move(copies));
  if (look) NXDKIT_TRY(CheckStateValues(model, *training, run, findings));
  if (findings.empty()) CountState(*training, report);
  const bool sound = findings.empty();
  Append(report.findings, std::move(findings));
  return sound ? CompareWithMasters(*training, run, report) : OkStatus();
}

// Checks everything that nxd-reshard would refuse in the state next to the weights of `model`:
// incomplete state, copies that differ, padding that is not zero and damaged archives are findings;
// a form that cannot be mapped is a warning, because it is not wrong. A tag without state, and
// anything but an NxD set, passes. `model` has no findings of its own.
Status VerifyOptimizer(const BoundArtifact& model, const InputHints& hints, bool look,
                       const RunOptions& run, VerifyReport& report) {
  if (!model.model) return OkStatus();
  const Kind& kind = *model.artifact.kind;
  if (kind.state == StateForm::kNamed) return VerifyNamedState(model, hints, look, run, report);
  if (!kind.bind_state) return OkStatus();
  BoundArtifact training = model;
  Status bound = kind.bind_state(training, hints);
  if (bound.ok() && !training.optimizer) return OkStatus();
  const size_t model_files = model.artifact.files.size();
  if (bound.ok()) bound = CheckState(model, training, look, run, report.findings);
  if (bound.ok()) {
    if (!report.findings.empty()) return OkStatus();
    report.checks.push_back(
        fmt::format("the optimizer's state ({}, dp {}, order \"{}\") is complete, copies are "
                    "bit-equal, padding is zero",
                    nxd::OptimizerStyleName(training.optimizer->style), training.optimizer->dp,
                    nxd::GroupRuleName(training.optimizer->order.rule)));
    return CheckMasters(training, model_files, run, report);
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

}  // namespace

Result<VerifyReport> Verify(const VerifyRequest& request) {
  VerifyReport report;
  NXDKIT_ASSIGN(Artifact opened, OpenArtifact(request.path, request.kind, request.hints));
  report.kind = opened.kind;
  report.AddSaid(opened);
  report.tensors = opened.tensor_count();
  if (opened.config) report.model_type = opened.config->model_type;
  InputHints hints = request.hints;
  // With an artifact to compare with, contents decide; without, an unknown hardware must be given.
  if (request.against) AssumeHardware(hints);
  const Result<BoundArtifact> bound = Bind(std::move(opened), hints);
  if (!bound.ok()) {
    if (!IsFinding(bound.error())) return bound.error();
    report.findings.push_back(LayoutFinding(bound.error()));
    return report;
  }
  const BoundArtifact& artifact = *bound;
  DeferChecksums(artifact.artifact);
  NXDKIT_TRY(RequireModel(artifact, request));
  Count(artifact, report);
  NXDKIT_ASSIGN(const bool goes_on, CheckAlone(artifact, request.run, report));
  if (!goes_on) return report;
  // Values that are read once need not be read again for their statistics.
  ValueCheck values(artifact);
  const CompareSink::Seen see = [&](uint32_t tensor, uint64_t offset, auto bytes) {
    values.Add(tensor, offset, bytes);
  };
  VerifyReport against;
  if (request.against) NXDKIT_TRY(VerifyAgainst(request, artifact, see, against));
  if (request.values) NXDKIT_TRY(values.Read(request.run));
  Append(report.findings, values.Findings());
  NXDKIT_ASSIGN(std::vector<Finding> damaged, CheckChecksums(artifact.artifact, request.run));
  Append(report.findings, std::move(damaged));
  if (report.findings.empty()) {
    NameChecks(artifact, report);
    if (request.values)
      report.checks.push_back(artifact.model
                                  ? "values: no NaN, no infinity, no norm or matrix of zeros alone"
                                  : "values: no NaN, no infinity");
    if (const rollout::Bundle* bundle = BundleOf(artifact.artifact))
      NameLoaders(*bundle, request.installations, report);
    NXDKIT_TRY(VerifyOptimizer(artifact, request.hints, request.values, request.run, report));
  }
  Append(report.findings, std::move(against.findings));
  report.differing = against.differing;
  Append(report.checks, std::move(against.checks));
  report.AddSaid(against);
  return report;
}

}  // namespace nxdkit::ops
