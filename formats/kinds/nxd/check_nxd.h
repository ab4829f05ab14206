// PRIVATE to formats/kinds: what only an NxD set can have wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/models/gqa.h"

namespace nxdkit::ops {

// What the metadata of optimum-neuron's trainer records otherwise than it is stored.
std::vector<Finding> CheckNxd(const BoundArtifact& artifact);
void NameNxdChecks(const BoundArtifact& bound, uint64_t ranks, std::vector<std::string>& checks);

std::optional<models::Placement> NxdHeads(const BoundArtifact& bound);

// The reference converter, where it has put the query heads as it does for trn2.
std::string MisplacedByConverter(const BoundArtifact& bound, const Finding& finding,
                                 int64_t stored_head);

}  // namespace nxdkit::ops
