#include "formats/ops/verify/verify.h"

#include <fmt/core.h>

#include "formats/ops/verify/against.h"
#include "formats/ops/verify/blob.h"
#include "formats/ops/verify/checksums.h"
#include "formats/ops/verify/compare.h"
#include "formats/ops/verify/fitness.h"
#include "formats/ops/verify/meaning.h"
#include "formats/ops/verify/mp_record.h"
#include "formats/ops/verify/optimizer.h"
#include "formats/ops/verify/structure.h"

namespace nxdkit::ops {
namespace {

// A fault of the artifact rather than of the question: shapes, names or replicas that are wrong.
bool IsFinding(const Error& error) {
  return error.code() == Errc::kCorrupt ||
         (error.code() == Errc::kUnsupported && !error.tensor().empty());
}

template <typename T>
void Append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Where contents cannot tell trn1 from the reference converter's trn2, the claim decides.
std::string AssumedHardware(const BoundArtifact& artifact) {
  const nxd::Geometry& geometry = artifact.nxd_geometry;
  if (artifact.artifact.kind != Kind::kNxd || geometry.kv_multiplier == 1) return "";
  if (artifact.replicas == nxd::ReplicaOrder::kAdjacent) return " (trn2, by its replicas)";
  return fmt::format(", if it is a set for {}, as was said: --against proves it",
                     geometry.hardware == models::Hardware::kTrn1 ? "trn1" : "trn2");
}

// Without a parameter table only files, names and values can be judged, against another artifact.
Status RequireModel(const BoundArtifact& artifact, const VerifyRequest& request) {
  if (artifact.model || request.against) return OkStatus();
  const Artifact& opened = artifact.artifact;
  if (!opened.config)
    return Error(Errc::kNotFound, "no config.json: nothing says which tensors this must have")
        .in(opened.path)
        .hint("name one with --config, or compare with --against");
  return Error(Errc::kUnsupported,
               fmt::format("its structure cannot be verified: {}", NoTableText(*opened.config)))
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
  report.checks.push_back(
      fmt::format("structure: {} tensors in {} files, all {} parameters complete, shapes and "
                  "dtypes as laid out",
                  report.tensors, artifact.artifact.files.size(), artifact.params.size()));
  const size_t archives = FilesWithChecksums(artifact.artifact).size();
  if (archives > 0)
    report.checks.push_back(fmt::format("the checksums of {} torch archive{} hold", archives,
                                        archives == 1 ? "" : "s"));
  if (artifact.artifact.kind != Kind::kNxd && artifact.artifact.kind != Kind::kRollout) return;
  if (artifact.artifact.mp_record)
    report.checks.push_back("what optimum-neuron's metadata records is stored and cut that way");
  report.checks.push_back("replicas are bit-equal, padding is zero");
  if (artifact.artifact.kind == Kind::kRollout)
    report.checks.push_back("rank tensors hold their rank");
  if (!SplitsQkv(*artifact.model->config.family)) return;
  report.checks.push_back(
      fmt::format("meaning: on all {} ranks and {} layers every query head sits with its own key "
                  "head, and o_proj's columns match{}",
                  report.ranks, artifact.model->config.layers, AssumedHardware(artifact)));
}

void Count(const BoundArtifact& artifact, VerifyReport& report) {
  for (const LogicalTensor& param : artifact.params)
    report.parameters += static_cast<uint64_t>(*ElementCount(param.shape));
  for (const LayoutFile& file : artifact.artifact.ranks)
    report.ranks = std::max(report.ranks, static_cast<uint64_t>(file.tp_rank + 1));
}

// By itself, but for the checksums. False when there is no more to look at.
Result<bool> CheckAlone(const BoundArtifact& artifact, const RunOptions& run,
                        VerifyReport& report) {
  Append(report.findings, CheckStructure(artifact));
  Append(report.findings, CheckMpRecord(artifact));
  if (const auto& bundle = artifact.artifact.bundle) {
    Append(report.findings, CheckCpuPlan(*bundle));
    NXDKIT_TRY(CheckBlobs(*bundle, run.poll, report));
  }
  Append(report.findings, CheckMeaning(artifact));
  Result<std::vector<Finding>> self = CheckSelf(artifact, run);
  if (self.ok()) {
    Append(report.findings, *std::move(self));
    return true;
  }
  if (!IsFinding(self.error())) return std::move(self).error();
  // What is missing was named above, with its rank.
  if (report.findings.empty()) report.findings.push_back(LayoutFinding(self.error()));
  return false;
}

}  // namespace

Result<VerifyReport> Verify(const VerifyRequest& request) {
  VerifyReport report;
  NXDKIT_ASSIGN(report.kind, request.kind ? Result<Kind>(*request.kind) : Recognise(request.path));
  NXDKIT_ASSIGN(Artifact opened, OpenArtifact(request.path, report.kind, request.hints));
  report.warnings = opened.warnings;
  report.tensors = opened.tensor_count();
  if (opened.config) report.model_type = opened.config->model_type;
  InputHints hints = request.hints;
  // With something to compare with, contents decide; without, an unknown hardware must be said.
  if (request.against && !hints.hardware_if_unknown)
    hints.hardware_if_unknown = models::Hardware::kTrn1;
  const Result<BoundArtifact> bound = Bind(std::move(opened), hints);
  if (!bound.ok()) {
    if (!IsFinding(bound.error())) return bound.error();
    report.findings.push_back(LayoutFinding(bound.error()));
    return report;
  }
  const BoundArtifact& artifact = *bound;
  NXDKIT_TRY(RequireModel(artifact, request));
  Count(artifact, report);
  NXDKIT_ASSIGN(const bool goes_on, CheckAlone(artifact, request.run, report));
  if (!goes_on) return report;
  // What the comparison reads need not be read again for its checksum.
  SeenCrcs crcs(artifact.artifact, artifact.bound);
  VerifyReport against;
  if (request.against) NXDKIT_TRY(VerifyAgainst(request, artifact, crcs, against));
  NXDKIT_ASSIGN(std::vector<Finding> damaged,
                CheckChecksums(artifact.artifact, request.run, crcs.Known()));
  Append(report.findings, std::move(damaged));
  if (report.findings.empty()) {
    NameChecks(artifact, report);
    NXDKIT_TRY(VerifyOptimizer(artifact, request.hints, request.run, report));
  }
  Append(report.findings, std::move(against.findings));
  Append(report.checks, std::move(against.checks));
  Append(report.warnings, std::move(against.warnings));
  return report;
}

}  // namespace nxdkit::ops
