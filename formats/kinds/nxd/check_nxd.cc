#include "formats/kinds/nxd/read_nxd.h"

#include <fmt/core.h>

#include <set>
#include <unordered_map>
#include <unordered_set>

#include "formats/kinds/bind.h"
#include "formats/kinds/nxd/nxd_state.h"

namespace nxdkit::kinds {
namespace {

using Recorded = std::unordered_map<std::string_view, const nxd::MpParameter*>;

Finding RecordFinding(const nxd::MpMetadata& metadata, const std::string& tensor,
                      std::string message) {
  return Finding("record", std::move(message)).in(metadata.path).on(tensor);
}

// The dimensions of the stored tensor along which a rank has only a part of a parameter.
std::set<int64_t> CutDims(const TensorLayout& tensor, const std::vector<LogicalTensor>& params) {
  std::set<int64_t> dims;
  for (const Piece& piece : tensor.pieces)
    for (size_t d = 0; d < piece.axes.size(); ++d)
      if (piece.logical.extent[d] != params[piece.param].shape[d]) dims.insert(piece.axes[d]);
  return dims;
}

// The error in the record of a tensor; "" if there is none.
std::string Objection(const nxd::MpParameter& recorded, const std::set<int64_t>& cut, int tp) {
  if (recorded.parallel && recorded.partitions != tp)
    return fmt::format("recorded in {} parts, the set has {} tensor parallel ranks",
                       recorded.partitions, tp);
  // NxD's layer loses this parameter's attributes when it fuses it; its module has them then.
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

// Checks one pipeline rank, by the file of its first tensor parallel rank.
void CheckRank(const BoundArtifact& artifact, size_t file, const nxd::MpMetadata& metadata,
               std::vector<Finding>& findings) {
  Recorded recorded;
  for (const nxd::MpParameter& parameter : metadata.parameters)
    recorded.emplace(parameter.name, &parameter);
  for (const TensorLayout& tensor : artifact.bound.layout.tensors) {
    if (tensor.file != file) continue;
    const auto it = recorded.find(tensor.name);
    if (it == recorded.end()) continue;  // the second name of a tied pair
    const std::string objection = Objection(*it->second, CutDims(tensor, artifact.params),
                                            NxdLayoutOf(artifact)->geometry.tp);
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

// If the contents cannot tell trn1 from the reference converter's trn2, the claim decides.
std::string AssumedHardware(const BoundArtifact& artifact) {
  const NxdLayout& layout = *NxdLayoutOf(artifact);
  if (layout.geometry.kv_multiplier == 1) return "";
  if (layout.replicas == nxd::ReplicaOrder::kAdjacent) return " (trn2, by its replicas)";
  return fmt::format(", if it is a set for {}, as given: --against verifies it",
                     layout.geometry.hardware == models::Hardware::kTrn1 ? "trn1" : "trn2");
}

// Queries in natural order over tiled key heads: the reference converter's form for trn2.
bool IsReferenceTrn2(const BoundArtifact& actual, const Finding& finding, int64_t stored_head) {
  const nxd::Geometry& geometry = NxdLayoutOf(actual)->geometry;
  if (geometry.kv_multiplier == 1 || !finding.rank) return false;
  const models::ModelConfig& config = actual.model->config;
  const auto assumed = nxd::HeadPlacement(config, geometry);
  if (!assumed.ok()) return false;
  const std::vector<int64_t>& slots = (*assumed)[*finding.rank].query;
  const int64_t per_rank = static_cast<int64_t>(slots.size());
  for (int64_t slot = 0; slot < per_rank; ++slot)
    if (slots[slot] == *finding.head) return stored_head == *finding.rank * per_rank + slot;
  return false;
}

}  // namespace

std::vector<Finding> CheckNxd(const BoundArtifact& artifact) {
  std::vector<Finding> findings;
  const NxdState& state = *NxdStateOf(artifact.artifact);
  if (!state.mp_record) return findings;
  const std::vector<nxd::Shard>& shards = state.set.shards;
  for (size_t f = 0; f < shards.size(); ++f) {
    const nxd::ShardFile& file = shards[f].file;
    if (file.tp != 0 || file.ep != 0) continue;
    if (const auto& metadata = state.mp_record->ranks.at(static_cast<size_t>(file.pp)))
      CheckRank(artifact, f, *metadata, findings);
  }
  return findings;
}

void NameNxdChecks(const BoundArtifact& bound, uint64_t ranks, std::vector<std::string>& checks) {
  if (NxdStateOf(bound.artifact)->mp_record)
    checks.push_back("the tensors in optimum-neuron's metadata are stored and cut as recorded");
  checks.push_back("replicas are bit-equal, padding is zero");
  NameMeaning(bound, ranks, AssumedHardware(bound), checks);
}

std::optional<models::Placement> NxdHeads(const BoundArtifact& bound) {
  auto heads = nxd::HeadPlacement(bound.model->config, NxdLayoutOf(bound)->geometry);
  return heads.ok() ? std::optional(*std::move(heads)) : std::nullopt;
}

std::string MisplacedByConverter(const BoundArtifact& bound, const Finding& finding,
                                 int64_t stored_head) {
  if (!IsReferenceTrn2(bound, finding, stored_head)) return "";
  return ": the query heads are in natural order while the key heads are tiled over the ranks, so "
         "they meet other groups' keys; "
         "NxD's checkpoint_converter.py writes such sets for --hw_backend trn2 with a "
         "kv_size_multiplier above 1";
}

}  // namespace nxdkit::kinds
