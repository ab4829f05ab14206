// The engines that a rollout worker can hold.
#pragma once

#include "trainer/rollout/rollout_engine.h"

namespace nxdkit::trainer {

// This project's engine, a vLLM server, or any program that speaks JSON Lines; README.md here.
Result<std::unique_ptr<RolloutEngine>> MakeEngine(EngineKind kind);

}  // namespace nxdkit::trainer
