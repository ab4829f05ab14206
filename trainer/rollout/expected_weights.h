// PRIVATE to trainer/rollout. Whether an engine holds the weights that it was told to load.
#pragma once

#include <optional>
#include <string>

#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// Of the bundle's version, before anything is loaded. kFindings: "stale weights: ...".
Status CheckVersion(const ExpectedWeights& expect,
                    const std::optional<rollout::WeightsVersion>& found, const std::string& bundle);

// Of what was loaded: version and digest. The trainer asks too what a worker says of itself.
Status CheckLoaded(const ExpectedWeights& expect, const EngineFacts& loaded,
                   const std::string& bundle);

}  // namespace nxdkit::trainer
