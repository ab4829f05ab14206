// A rollout bundle is compiled for its sizes: the configuration must ask for what it is.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/load.h"

namespace nxdkit::trainer {

// worker.rollout must ask for what neuron_config.json in `folder` says. Part of CheckConfig.
std::vector<ConfigProblem> CheckBundle(const LoadedConfig& loaded, const std::string& folder);

}  // namespace nxdkit::trainer
