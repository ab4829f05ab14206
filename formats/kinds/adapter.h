// PRIVATE to formats: LoRA adapters as artifacts: the tensors A and B of each adapted parameter,
// wherever they are stored.
#pragma once

#include <string>

#include "formats/kinds/kind.h"

namespace nxdkit::kinds {

// Opens an adapter and lays out its tensors. Parameters whose modules share one A by `sharing` have
// one parameter for it: stored copies of it must be equal (RequireSound). kCorrupt: A without B, a
// rank that the configuration does not give, shapes that do not match the base, an adapted module
// without tensors. kUnsupported: a module that the base does not have, an option that changes what
// the tensors mean.
Result<BoundArtifact> BindLora(const std::string& path, const LoraBase& base,
                               nxd::LoraSharing sharing, const InputHints& hints,
                               const Looker& look = {});

// The same for an adapter by itself: its base's config.json is hints.config, or in its folder.
Result<BoundArtifact> OpenLora(const std::string& path, const Kind& kind, nxd::LoraSharing sharing,
                               const InputHints& hints, const Looker& look = {},
                               const LoraParts* like = nullptr);

}  // namespace nxdkit::kinds
