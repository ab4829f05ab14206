// PRIVATE to trainer/engines. Rollout by a vLLM server: one that runs, or one that is started and
// ended here. How weights get into it, and what proves that they did, is in README.md here.
#pragma once

#include <memory>

#include "trainer/rollout/rollout_engine.h"

namespace nxdkit::trainer {

std::unique_ptr<RolloutEngine> MakeVllmEngine();

}  // namespace nxdkit::trainer
