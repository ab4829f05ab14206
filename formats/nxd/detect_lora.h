// PRIVATE to formats. The layout of a shard set that holds a LoRA adapter.
#pragma once

#include <optional>
#include <vector>

#include "formats/nxd/detect.h"

namespace nxdkit::nxd {

// The layout of a set that holds an adapter and nothing else, by its names and shapes; claims count
// as in Detect, and must give the hardware where key heads are replicated. kUnsupported for base
// weights in addition to the adapter, and for shards that were gathered when saved.
Result<Geometry> DetectLora(const ShardSet& set, const models::Model& model,
                            const std::vector<Claims>& claims,
                            std::optional<models::Hardware> hardware_if_unknown = std::nullopt);

}  // namespace nxdkit::nxd
