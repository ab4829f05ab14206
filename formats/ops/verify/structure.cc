#include "formats/ops/verify/structure.h"

#include <fmt/core.h>

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace nxdkit::ops {
namespace {

void CheckMissingParams(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  std::set<uint32_t> stored;
  for (const TensorLayout& tensor : artifact.bound.layout.tensors)
    for (const Piece& piece : tensor.pieces) stored.insert(piece.param);
  for (uint32_t i = 0; i < artifact.params.size(); ++i)
    if (!stored.contains(i))
      findings.push_back(Finding("missing", "the parameter is stored nowhere")
                             .in(artifact.artifact.path)
                             .on(artifact.params[i].name)
                             .of(artifact.params[i].name));
  if (!findings.empty()) return;
  const auto places = PrimaryPlaces::Find(artifact.params, artifact.bound.layout);
  if (!places.ok()) findings.push_back(LayoutFinding(places.error()));
}

std::set<std::string> NamesIn(const TensorFile& file) {
  std::set<std::string> names;
  for (const StoredTensor& tensor : file.tensors) names.insert(tensor.name);
  return names;
}

// Names that every rank of a pipeline stage must share.
void CheckRanksAlike(const Artifact& artifact, std::vector<Finding>& findings) {
  const auto& set = artifact.set;
  // By pp and ep rank, from the first tp rank: NxD's converter stores with ep rank 0 alone what is
  // no expert's.
  std::map<std::pair<int64_t, int>, std::set<std::string>> of_stage;
  for (size_t f = 0; f < artifact.files.size(); ++f) {
    const TensorFile& file = artifact.files[f];
    const LayoutFile& ranks = artifact.ranks[f];
    if (ranks.tp_rank < 0) return;
    // Expert parallel ranks above 0 of a dense model may hold nothing.
    if (set && set->location.ep > 1 && file.tensors.empty()) continue;
    const std::set<std::string> here = NamesIn(file);
    const int ep = set && f < set->shards.size() ? set->shards[f].file.ep : 0;
    const auto [first, added] = of_stage.emplace(std::pair(ranks.pp_rank, ep), here);
    if (added) continue;
    const auto add_all = [&](const std::set<std::string>& names,
                             const std::set<std::string>& others, const char* message) {
      for (const std::string& name : names)
        if (!others.contains(name))
          findings.push_back(
              Finding("ranks", message).in(file.path).on(name).at_rank(ranks.tp_rank));
    };
    add_all(first->second, here, "the tensor is missing on this rank, other ranks have it");
    add_all(here, first->second, "the tensor is on this rank only");
  }
}

// One rank's file of a bundle.
void CheckRolloutFile(const BoundArtifact& artifact, size_t f, std::optional<Dtype> dtype,
                      std::vector<Finding>& findings) {
  const TensorFile& file = artifact.artifact.files[f];
  const auto rank = static_cast<int>(artifact.artifact.ranks[f].tp_rank);
  const auto add = [&](const char* check, const std::string& name, std::string message) {
    findings.push_back(Finding(check, std::move(message)).in(file.path).on(name).at_rank(rank));
  };
  for (const StoredTensor& tensor : file.tensors)
    if (dtype && Info(tensor.dtype).floating && tensor.dtype != *dtype)
      add("dtype", tensor.name,
          fmt::format("dtype {} found, neuron_config.json says {}", Name(tensor.dtype),
                      Name(*dtype)));
  const auto expected = rollout::RankTensors(*artifact.model, artifact.rollout_geometry, rank);
  if (!expected.ok()) return;
  const std::set<std::string> here = NamesIn(file);
  for (const TensorLayout& tensor : *expected)
    if (!here.contains(tensor.name)) add("missing", tensor.name, "the tensor is missing");
}

void CheckRolloutTensors(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  if (artifact.artifact.kind != Kind::kRollout) return;
  const auto& config = artifact.artifact.bundle->config;
  if (!config)
    findings.push_back(
        Finding("config", "neuron_config.json is missing: no engine can load the bundle")
            .in(artifact.artifact.path));
  const auto dtype = config ? DtypeFromTorchName(config->torch_dtype) : std::optional<Dtype>();
  for (size_t f = 0; f < artifact.artifact.files.size(); ++f)
    CheckRolloutFile(artifact, f, dtype, findings);
}

// --- the record of optimum-neuron's trainer

using Recorded = std::unordered_map<std::string_view, const nxd::MpParameter*>;

Finding RecordFinding(const nxd::MpMetadata& metadata, const std::string& tensor,
                      std::string message) {
  return Finding("record", std::move(message)).in(metadata.path).on(tensor);
}

// The dimensions of the stored tensor along which a rank has a part of a parameter only.
std::set<int64_t> CutDims(const TensorLayout& tensor, const std::vector<LogicalTensor>& params) {
  std::set<int64_t> dims;
  for (const Piece& piece : tensor.pieces)
    for (size_t d = 0; d < piece.axes.size(); ++d)
      if (piece.logical.extent[d] != params[piece.param].shape[d]) dims.insert(piece.axes[d]);
  return dims;
}

// What is wrong with the record of a tensor; "" when nothing.
std::string Objection(const nxd::MpParameter& recorded, const std::set<int64_t>& cut, int tp) {
  if (recorded.parallel && recorded.partitions != tp)
    return fmt::format("recorded in {} parts, the set has {} tensor parallel ranks",
                       recorded.partitions, tp);
  // NxD's layer loses what it knows of this parameter when it fuses it; its module says it then.
  if (!recorded.parallel && recorded.name.ends_with(".qkv_proj.weight_qkv")) return "";
  for (const int64_t dim : cut) {
    if (!recorded.parallel)
      return fmt::format("recorded as whole on every rank, but it is cut along dimension {}", dim);
    if (dim != recorded.dim)
      return fmt::format("recorded as cut along dimension {}, but it is cut along {}", recorded.dim,
                         dim);
  }
  return "";
}

// One pipeline rank, by the file of its first tensor parallel rank.
void CheckRank(const BoundArtifact& artifact, size_t file, const nxd::MpMetadata& metadata,
               std::vector<Finding>& findings) {
  Recorded recorded;
  for (const nxd::MpParameter& parameter : metadata.parameters)
    recorded.emplace(parameter.name, &parameter);
  for (const TensorLayout& tensor : artifact.bound.layout.tensors) {
    if (tensor.file != file) continue;
    const auto it = recorded.find(tensor.name);
    if (it == recorded.end()) continue;  // the second name of a tied pair
    const std::string objection =
        Objection(*it->second, CutDims(tensor, artifact.params), artifact.nxd_geometry.tp);
    if (!objection.empty()) findings.push_back(RecordFinding(metadata, tensor.name, objection));
  }
  std::unordered_set<std::string_view> stored;
  for (const StoredTensor& tensor : artifact.artifact.files[file].tensors)
    stored.insert(tensor.name);
  for (const nxd::MpParameter& parameter : metadata.parameters)
    if (!stored.contains(parameter.name))
      findings.push_back(RecordFinding(
          metadata, parameter.name,
          fmt::format("recorded, but not stored in {}", artifact.artifact.files[file].path)));
}

}  // namespace

Finding LayoutFinding(const Error& error) {
  std::string message = error.message();
  if (!error.hint().empty()) message += fmt::format(" ({})", error.hint());
  return Finding("layout", std::move(message))
      .in(error.file())
      .on(error.tensor())
      .at_rank(error.rank());
}

std::vector<Finding> CheckStructure(const BoundArtifact& artifact) {
  std::vector<Finding> findings;
  CheckMissingParams(artifact, findings);
  CheckRanksAlike(artifact.artifact, findings);
  CheckRolloutTensors(artifact, findings);
  return findings;
}

std::vector<Finding> CheckMpRecord(const BoundArtifact& artifact) {
  std::vector<Finding> findings;
  const std::optional<nxd::MpRecord>& record = artifact.artifact.mp_record;
  if (!record) return findings;
  const std::vector<nxd::Shard>& shards = artifact.artifact.set->shards;
  for (size_t f = 0; f < shards.size(); ++f) {
    const nxd::ShardFile& file = shards[f].file;
    if (file.tp != 0 || file.ep != 0) continue;
    if (const auto& metadata = record->ranks.at(static_cast<size_t>(file.pp)))
      CheckRank(artifact, f, *metadata, findings);
  }
  return findings;
}

}  // namespace nxdkit::ops
