// PRIVATE to formats/nxd. What the layout of a set is learned with: names, shapes, claims.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/nxd/detect.h"

namespace nxdkit::nxd {

// The first tensor of any pipeline rank of tensor parallel rank `tp` whose name contains `part` and
// ends with `end`; nullptr when there is none.
const StoredTensor* FindOnRank(const ShardSet& set, int tp, std::string_view part,
                               std::string_view end);

// Whether the names are those of NxDT's Megatron models.
bool HasMegatronNames(const ShardSet& set, const models::Family& family);

// One claim from several sources: the first that speaks, and who it is.
template <typename T>
std::pair<std::optional<T>, std::string> FirstClaim(const std::vector<Claims>& claims,
                                                    std::optional<T> LayoutOptions::*field) {
  for (const Claims& claim : claims)
    if (claim.*field) return {claim.*field, claim.origin};
  return {std::nullopt, ""};
}

// The kv multiplier that the rows of a stored key projection, or of all three when `fused`, stand
// for. kCorrupt when they are no whole number of heads.
Result<int> Multiplier(const StoredTensor& tensor, const models::ModelConfig& config, int tp,
                       bool fused);

// Whether what the files' names and the tensors' names and shapes prove is what is claimed.
Status CheckGridClaims(const ShardSet& set, const Claims& claim);
Status CheckClaims(const Geometry& geometry, const Claims& claim);

}  // namespace nxdkit::nxd
