#include "formats/ops/verify/verify.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "formats/ops/verify/blob.h"
#include "formats/ops/verify/check_mp_record.h"
#include "formats/ops/verify/checksums.h"
#include "formats/ops/verify/fitness.h"
#include "formats/ops/verify/verify_optimizer.h"
#include "formats/ops/verify/wrong_heads.h"

namespace nxdkit::ops {
namespace {

Finding FromError(const Error& error) {
  Finding finding;
  finding.check = "layout";
  finding.file = error.file();
  finding.tensor = error.tensor();
  finding.rank = error.rank();
  finding.message = error.message();
  if (!error.hint().empty()) finding.message += fmt::format(" ({})", error.hint());
  return finding;
}

// A fault of the artifact rather than of the question: shapes, names or replicas that are wrong.
bool IsFinding(const Error& error) {
  return error.code() == Errc::kCorrupt ||
         (error.code() == Errc::kUnsupported && !error.tensor().empty());
}

void CheckMissingParams(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  std::set<uint32_t> stored;
  for (const TensorLayout& tensor : artifact.bound.layout.tensors)
    for (const Piece& piece : tensor.pieces) stored.insert(piece.param);
  for (uint32_t i = 0; i < artifact.params.size(); ++i) {
    if (stored.contains(i)) continue;
    Finding finding;
    finding.check = "missing";
    finding.file = artifact.artifact.path;
    finding.param = finding.tensor = artifact.params[i].name;
    finding.message = "the parameter is stored nowhere";
    findings.push_back(std::move(finding));
  }
  if (!findings.empty()) return;
  const auto places = PrimaryPlaces::Find(artifact.params, artifact.bound.layout);
  if (!places.ok()) findings.push_back(FromError(places.error()));
}

// Names that every rank of a pipeline stage must share.
void CheckRanksAlike(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  // By pp and ep rank, from the first tp rank: NxD's converter stores with ep rank 0 alone what is
  // no expert's.
  std::map<std::pair<int64_t, int>, std::set<std::string>> of_stage;
  for (size_t f = 0; f < artifact.artifact.files.size(); ++f) {
    const TensorFile& file = artifact.artifact.files[f];
    const LayoutFile& ranks = artifact.artifact.ranks[f];
    if (ranks.tp_rank < 0) return;
    // Expert parallel ranks above 0 of a dense model may hold nothing.
    if (artifact.artifact.set && artifact.artifact.set->location.ep > 1 && file.tensors.empty())
      continue;
    std::set<std::string> here;
    for (const StoredTensor& tensor : file.tensors) here.insert(tensor.name);
    const auto& set = artifact.artifact.set;
    const int ep = set && f < set->shards.size() ? set->shards[f].file.ep : 0;
    const auto [it, first] = of_stage.emplace(std::pair(ranks.pp_rank, ep), here);
    if (first) continue;
    const auto add = [&](const std::string& name, std::string message) {
      Finding finding;
      finding.check = "ranks";
      finding.file = file.path;
      finding.tensor = name;
      finding.rank = ranks.tp_rank;
      finding.message = std::move(message);
      findings.push_back(std::move(finding));
    };
    for (const std::string& name : it->second)
      if (!here.contains(name))
        add(name, "the tensor is missing on this rank, other ranks have it");
    for (const std::string& name : here)
      if (!it->second.contains(name)) add(name, "the tensor is on this rank only");
  }
}

void CheckRolloutTensors(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  if (artifact.artifact.kind != Kind::kRollout) return;
  const auto& config = artifact.artifact.bundle->config;
  if (!config) {
    Finding finding;
    finding.check = "config";
    finding.file = artifact.artifact.path;
    finding.message = "neuron_config.json is missing: no engine can load the bundle";
    findings.push_back(std::move(finding));
  }
  std::optional<Dtype> dtype;
  if (config) dtype = DtypeFromTorchName(config->torch_dtype);
  for (size_t f = 0; f < artifact.artifact.files.size(); ++f) {
    const TensorFile& file = artifact.artifact.files[f];
    const int rank = static_cast<int>(artifact.artifact.ranks[f].tp_rank);
    std::set<std::string> here;
    const auto add = [&](const char* check, const std::string& name, std::string message) {
      Finding finding;
      finding.check = check;
      finding.file = file.path;
      finding.tensor = name;
      finding.rank = rank;
      finding.message = std::move(message);
      findings.push_back(std::move(finding));
    };
    for (const StoredTensor& tensor : file.tensors) {
      here.insert(tensor.name);
      if (dtype && Info(tensor.dtype).floating && tensor.dtype != *dtype)
        add("dtype", tensor.name,
            fmt::format("dtype {} found, neuron_config.json says {}", Name(tensor.dtype),
                        Name(*dtype)));
    }
    const auto expected = rollout::RankTensors(*artifact.model, artifact.rollout_geometry, rank);
    if (!expected.ok()) continue;
    for (const TensorLayout& tensor : *expected)
      if (!here.contains(tensor.name)) add("missing", tensor.name, "the tensor is missing");
  }
}

void Append(std::vector<Finding>& to, std::vector<Finding> from) {
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

// Elements are compared in the dtype that `artifact` stores them in.
std::string RoundingText(const BoundArtifact& other, const BoundArtifact& artifact) {
  std::set<std::string> pairs;
  std::map<std::string, Dtype> dtypes;
  for (size_t t = 0; t < other.bound.stored.size(); ++t)
    for (const Piece& piece : other.bound.layout.tensors[t].pieces)
      dtypes.emplace(other.params[piece.param].name, other.bound.stored[t].dtype);
  for (size_t t = 0; t < artifact.bound.stored.size(); ++t)
    for (const Piece& piece : artifact.bound.layout.tensors[t].pieces) {
      const auto it = dtypes.find(artifact.params[piece.param].name);
      const Dtype dtype = artifact.bound.stored[t].dtype;
      if (it != dtypes.end() && it->second != dtype)
        pairs.insert(fmt::format("{} to {}", Name(it->second), Name(dtype)));
    }
  return pairs.empty() ? "" : fmt::format(", converted from {}", fmt::join(pairs, " and "));
}

// Adds findings and checks to `report`.
Status VerifyAgainst(const VerifyRequest& request, const BoundArtifact& artifact, SeenCrcs& crcs,
                     VerifyReport& report) {
  Kind kind = Kind::kHf;
  if (request.against_kind) {
    kind = *request.against_kind;
  } else {
    NXDKIT_ASSIGN(kind, Recognise(*request.against));
  }
  NXDKIT_ASSIGN(const BoundArtifact other,
                OpenAndBind(*request.against, kind, request.against_hints));
  const auto seen = [&](uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
    crcs.Add(tensor, offset, bytes);
  };
  Result<std::vector<Finding>> findings = CompareArtifacts(other, artifact, request.run, seen);
  if (!findings.ok()) {
    if (findings.error().code() != Errc::kFindings) return std::move(findings).error();
    report.findings.push_back(FromError(findings.error()));
    return OkStatus();
  }
  if (findings->empty())
    report.checks.push_back(
        fmt::format("every element equals {}{}", *request.against, RoundingText(other, artifact)));
  else
    NXDKIT_TRY(ExplainHeads(other, artifact, *findings));
  Append(report.findings, *std::move(findings));
  return OkStatus();
}

}  // namespace

Result<VerifyReport> Verify(const VerifyRequest& request) {
  VerifyReport report;
  if (request.kind) {
    report.kind = *request.kind;
  } else {
    NXDKIT_ASSIGN(report.kind, Recognise(request.path));
  }
  NXDKIT_ASSIGN(Artifact opened, OpenArtifact(request.path, report.kind, request.hints));
  report.warnings = opened.warnings;
  report.tensors = opened.tensor_count();
  if (opened.config) report.model_type = opened.config->model_type;
  InputHints hints = request.hints;
  // With something to compare with, contents decide; without, an unknown hardware must be said.
  if (request.against && !hints.hardware_if_unknown)
    hints.hardware_if_unknown = models::Hardware::kTrn1;
  Result<BoundArtifact> bound = Bind(std::move(opened), hints);
  if (!bound.ok()) {
    if (!IsFinding(bound.error())) return std::move(bound).error();
    report.findings.push_back(FromError(bound.error()));
    return report;
  }
  const BoundArtifact& artifact = *bound;
  NXDKIT_TRY(RequireModel(artifact, request));
  for (const LogicalTensor& param : artifact.params)
    report.parameters += static_cast<uint64_t>(*ElementCount(param.shape));
  for (const LayoutFile& file : artifact.artifact.ranks)
    report.ranks = std::max(report.ranks, static_cast<uint64_t>(file.tp_rank + 1));
  CheckMissingParams(artifact, report.findings);
  CheckRanksAlike(artifact, report.findings);
  CheckRolloutTensors(artifact, report.findings);
  Append(report.findings, CheckMpRecord(artifact));
  if (artifact.artifact.bundle) {
    Append(report.findings, CheckCpuPlan(*artifact.artifact.bundle));
    NXDKIT_TRY(CheckBlobs(*artifact.artifact.bundle, request.run.poll, report));
  }
  Append(report.findings, CheckMeaning(artifact));
  Result<std::vector<Finding>> self = CheckSelf(artifact, request.run);
  if (!self.ok()) {
    if (!IsFinding(self.error())) return std::move(self).error();
    // What is missing was named above, with its rank.
    if (report.findings.empty()) report.findings.push_back(FromError(self.error()));
    return report;
  }
  Append(report.findings, *std::move(self));
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
  for (std::string& check : against.checks) report.checks.push_back(std::move(check));
  return report;
}

}  // namespace nxdkit::ops
