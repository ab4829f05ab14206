// PRIVATE to formats/kinds. An adapter as NxD saves it: a shard set, cut like the layers that it adapts.
#pragma once

#include "formats/adapter/lora_parts.h"

namespace nxdkit::ops {

// Whether this NxD set, whose layout nobody knows yet, is one of an adapter: by its first shard.
bool HoldsLora(const Artifact& set);

// Where the configuration of the base is looked for.
Result<std::vector<std::string>> LoraSetFolders(const std::string& path, const InputHints& hints);

// Fills in `out`, whose artifact has its path.
Status BindLoraSet(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                   const InputHints& hints);

}  // namespace nxdkit::ops
