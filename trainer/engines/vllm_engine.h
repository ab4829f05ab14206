// PRIVATE to trainer/engines. Rollout by a vLLM server: a running one, or one that is started and
// stopped here. README.md here explains how weights get into it, and what proves it.
#pragma once

#include <memory>

#include "trainer/rollout/rollout_engine.h"

namespace nxdkit::trainer {

std::unique_ptr<RolloutEngine> MakeVllmEngine();

}  // namespace nxdkit::trainer
