#include "formats/ops/verify/structure.h"

#include <fmt/core.h>

#include <algorithm>
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
  const bool has_experts =
      std::ranges::any_of(artifact.ranks, [](const LayoutFile& file) { return file.ep_rank > 0; });
  // By pp and ep rank, from the first tp rank: NxD's converter stores with ep rank 0 alone what is
  // no expert's.
  std::map<std::pair<int64_t, int64_t>, std::set<std::string>> of_stage;
  for (size_t f = 0; f < artifact.files.size(); ++f) {
    const TensorFile& file = artifact.files[f];
    const LayoutFile& ranks = artifact.ranks[f];
    if (ranks.tp_rank < 0) return;
    // Expert parallel ranks above 0 of a dense model may hold nothing.
    if (has_experts && file.tensors.empty()) continue;
    const std::set<std::string> here = NamesIn(file);
    const auto [first, added] =
        of_stage.emplace(std::pair(ranks.pp_rank, std::max<int64_t>(ranks.ep_rank, 0)), here);
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
  return findings;
}

}  // namespace nxdkit::ops
