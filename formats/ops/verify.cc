#include "formats/ops/verify.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "formats/ops/fitness.h"
#include "formats/ops/wrong_heads.h"

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

// Names and dtypes that every rank of a pipeline stage must share.
void CheckRanksAlike(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  std::map<int64_t, std::map<std::string, Dtype>> of_stage;  // by pp rank, from the first tp rank
  std::map<int64_t, size_t> first_file;
  for (size_t f = 0; f < artifact.artifact.files.size(); ++f) {
    const TensorFile& file = artifact.artifact.files[f];
    const LayoutFile& ranks = artifact.artifact.ranks[f];
    if (ranks.tp_rank < 0) return;
    // Expert parallel ranks above 0 of a dense model may hold nothing.
    if (artifact.artifact.set && artifact.artifact.set->location.ep > 1 && file.tensors.empty())
      continue;
    std::map<std::string, Dtype> here;
    for (const StoredTensor& tensor : file.tensors) here.emplace(tensor.name, tensor.dtype);
    const auto [it, first] = of_stage.emplace(ranks.pp_rank, here);
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
    for (const auto& [name, dtype] : it->second) {
      const auto own = here.find(name);
      if (own == here.end())
        add(name, "the tensor is missing on this rank, other ranks have it");
      else if (own->second != dtype)
        add(name,
            fmt::format("dtype {} on this rank, {} on another", Name(own->second), Name(dtype)));
    }
    for (const auto& [name, dtype] : here)
      if (!it->second.contains(name)) add(name, "the tensor is on this rank only");
  }
}

void CheckRolloutTensors(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  if (artifact.artifact.kind != Kind::kRollout) return;
  const auto& config = artifact.artifact.bundle->config;
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

void NameChecks(const BoundArtifact& artifact, VerifyReport& report) {
  report.checks.push_back(
      fmt::format("structure: {} tensors in {} files, all {} parameters complete, shapes and "
                  "dtypes as laid out",
                  report.tensors, artifact.artifact.files.size(), artifact.params.size()));
  if (artifact.artifact.kind != Kind::kNxd && artifact.artifact.kind != Kind::kRollout) return;
  report.checks.push_back("replicas are bit-equal, padding is zero");
  if (artifact.artifact.kind == Kind::kRollout)
    report.checks.push_back("rank tensors hold their rank");
  report.checks.push_back(
      fmt::format("meaning: on all {} ranks and {} layers every query head sits with its own key "
                  "head, and o_proj's columns match",
                  report.ranks, artifact.model ? artifact.model->config.layers : 0));
}

Status VerifyAgainst(const VerifyRequest& request, const BoundArtifact& artifact,
                     VerifyReport& report) {
  Kind kind = Kind::kHf;
  if (request.against_kind) {
    kind = *request.against_kind;
  } else {
    NXDKIT_ASSIGN(kind, Recognise(*request.against));
  }
  NXDKIT_ASSIGN(const BoundArtifact other,
                OpenAndBind(*request.against, kind, request.against_hints));
  Result<std::vector<Finding>> findings = CompareArtifacts(other, artifact, request.run);
  if (!findings.ok()) {
    if (findings.error().code() != Errc::kFindings) return std::move(findings).error();
    report.findings.push_back(FromError(findings.error()));
    return OkStatus();
  }
  if (findings->empty())
    report.checks.push_back(fmt::format("every element equals {}", *request.against));
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
  for (const LogicalTensor& param : artifact.params)
    report.parameters += static_cast<uint64_t>(*ElementCount(param.shape));
  for (const LayoutFile& file : artifact.artifact.ranks)
    report.ranks = std::max(report.ranks, static_cast<uint64_t>(file.tp_rank + 1));
  CheckMissingParams(artifact, report.findings);
  CheckRanksAlike(artifact, report.findings);
  CheckRolloutTensors(artifact, report.findings);
  if (artifact.artifact.bundle) Append(report.findings, CheckCpuPlan(*artifact.artifact.bundle));
  Append(report.findings, CheckMeaning(artifact));
  NXDKIT_ASSIGN(std::vector<Finding> self, CheckSelf(artifact, request.run));
  Append(report.findings, std::move(self));
  if (report.findings.empty()) NameChecks(artifact, report);
  if (request.against) NXDKIT_TRY(VerifyAgainst(request, artifact, report));
  return report;
}

}  // namespace nxdkit::ops
