#include "formats/ops/verify/structure.h"

#include <fmt/core.h>

#include <map>
#include <set>

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

}  // namespace nxdkit::ops
