// PRIVATE to formats/kinds: an NxD shard set, opened.
#pragma once

#include "formats/artifact/artifact.h"

namespace nxdkit::ops {

// Weights in the folder itself count before tags in folders below: shards that were made of a model
// and put into its folder must not be taken for the model.
Result<bool> IsNxdFolder(const std::string& path);
Status OpenNxd(Artifact& artifact, const InputHints& hints);

}  // namespace nxdkit::ops
