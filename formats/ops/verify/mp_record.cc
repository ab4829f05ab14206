#include "formats/ops/verify/mp_record.h"

#include <fmt/core.h>

#include <set>
#include <unordered_map>
#include <unordered_set>

namespace nxdkit::ops {
namespace {

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
