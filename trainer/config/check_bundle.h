// A rollout bundle is compiled for fixed sizes: the configuration must ask for those.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/load.h"

namespace nxdkit::trainer {

// Checks worker.rollout against neuron_config.json in `folder`. Part of CheckConfig.
std::vector<ConfigProblem> CheckBundle(const LoadedConfig& loaded, const std::string& folder);

}  // namespace nxdkit::trainer
