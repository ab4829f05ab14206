// PRIVATE to formats: opens, binds and checks an NxD shard set, a model's or an adapter's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/adapter/lora_numbering.h"
#include "formats/artifact/artifact.h"
#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/models/gqa.h"

namespace nxdkit::kinds {

// Weights in the folder itself take precedence over tags in folders below: shards made from a model
// and put into its folder must not be taken for the model.
Result<bool> IsNxdFolder(const std::string& path, const Looker& look);
Status OpenNxd(Artifact& artifact, const InputHints& hints);

// Binds the optimizer's state too if hints.optimizer asks for it.
Status BindNxd(BoundArtifact& out, const InputHints& hints);

// Adds the state of the tag's optimizer to a bound NxD set: files, layout, logical parameters. A
// tag without one stays as it is. kUnsupported if a number cannot be mapped to its parameter with
// certainty; kCorrupt for incomplete state, which known faulty writers leave.
Status BindOptimizer(BoundArtifact& out, const InputHints& hints);

// The differences between the metadata of optimum-neuron's trainer and the stored tensors.
std::vector<Finding> CheckNxd(const BoundArtifact& artifact);
void NameNxdChecks(const BoundArtifact& bound, uint64_t ranks, std::vector<std::string>& checks);

std::optional<models::Placement> NxdHeads(const BoundArtifact& bound);

// The reference converter, if it has placed the query heads as it does for trn2.
std::string MisplacedByConverter(const BoundArtifact& bound, const Finding& finding,
                                 int64_t stored_head);

// Whether this NxD set, whose layout is not known yet, is an adapter's: by its first shard.
bool HoldsLora(const Artifact& set, const InputHints& hints);

// The folders in which to look for the base's configuration.
Result<std::vector<std::string>> LoraSetFolders(const std::string& path, const InputHints& hints,
                                                const Looker& look);

// Fills in `out`, whose artifact has its path.
Status BindLoraSet(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                   const InputHints& hints);

}  // namespace nxdkit::kinds
