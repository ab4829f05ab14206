// PRIVATE to formats/nxd. The steps of layout detection: names, shapes, claims.
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

// One claim from several sources: the first one given, and its source.
template <typename T>
std::pair<std::optional<T>, std::string> FirstClaim(const std::vector<Claims>& claims,
                                                    std::optional<T> LayoutOptions::*field) {
  for (const Claims& claim : claims)
    if (claim.*field) return {claim.*field, claim.origin};
  return {std::nullopt, ""};
}

// The kv multiplier that follows from the rows of a stored key projection, or of all three when
// `fused`. kCorrupt when they are not a whole number of heads.
Result<int> Multiplier(const StoredTensor& tensor, const models::ModelConfig& config, int tp,
                       bool fused);

// Checks the claims against the grid proven by the files' names, and the tensors' names and shapes.
Status CheckGridClaims(const ShardSet& set, const Claims& claim);
Status CheckClaims(const Geometry& geometry, const Claims& claim);

}  // namespace nxdkit::nxd
