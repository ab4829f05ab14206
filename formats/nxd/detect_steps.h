// The steps of Detect that have files of their own.
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

// One claim from several sources: the first that speaks, and who it is.
template <typename T>
std::pair<std::optional<T>, std::string> FirstClaim(const std::vector<Claims>& claims,
                                                    std::optional<T> Claims::*field) {
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

// Sets the hardware and the order of the replicas, as Detect says. The rest of the geometry is
// known, and heads can be placed with it.
Status DetectHardware(const ShardSet& set, const models::ModelConfig& config,
                      const std::vector<Claims>& claims,
                      std::optional<models::Hardware> hardware_if_unknown, Detected& detected);

// Sets vpp: the one whose cuts put every layer where it lies.
Status DetectStages(const ShardSet& set, const models::ModelConfig& config,
                    const std::vector<Claims>& claims, Detected& detected);

}  // namespace nxdkit::nxd
