// LoRA adapters as artifacts: the tensors A and B of each adapted parameter, wherever they are
// stored, and a model that is read with them added.
#pragma once

#include <string>

#include "formats/artifact/artifact.h"

namespace nxdkit::ops {

// The file of an adapter's tensors in a folder, as PEFT and NxD name it; "" when there is none.
std::string LoraFile(const std::string& folder);

// Whether this is an adapter in PEFT's form: a folder, or its file of tensors.
bool LooksLikePeft(const std::string& path);

// Whether this NxD set, whose layout nobody knows yet, is one of an adapter: by its first shard.
bool HoldsLora(const Artifact& set);

// What an adapter is bound against: the parameters of its base. `model` is null for a family
// without a table; the adapter can then only be in PEFT's form.
struct LoraBase {
  const std::vector<LogicalTensor>* params = nullptr;
  const models::Model* model = nullptr;
  std::string path;  // for messages
  // Which parameters an NxD set adapts; null: those that it has tensors for. Its modules may store
  // more, as zeros.
  const LoraParts* like = nullptr;
};

// Opens an adapter and lays out its tensors. Parameters whose modules share one A by `sharing` have
// one parameter for it: stored copies of it must be equal (RequireSound).
// kCorrupt: A without B, a rank that the configuration does not say, shapes that are not the
// base's, an adapted module without tensors. kUnsupported: a module that the base does not have, an
// option that changes what the tensors mean.
Result<BoundArtifact> BindLora(const std::string& path, const LoraBase& base,
                               nxd::LoraSharing sharing, const InputHints& hints);

// The same for an adapter by itself: its base's config.json is hints.config, or beside it.
Result<BoundArtifact> OpenLora(const std::string& path, Kind kind, nxd::LoraSharing sharing,
                               const InputHints& hints, const LoraParts* like = nullptr);

// A model read with an adapter added: W + scale * B A, in F32 and rounded where it is written.
// kUnsupported for an embedding that is shared with the head, which the adapter would not be.
Result<BoundArtifact> MergeLora(BoundArtifact base, const InputHints& hints);

}  // namespace nxdkit::ops
