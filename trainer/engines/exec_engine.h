// PRIVATE to trainer/engines. Rollout by any program: JSON Lines on its standard input and output,
// described in README.md here.
#pragma once

#include <memory>

#include "trainer/rollout/rollout_engine.h"

namespace nxdkit::trainer {

std::unique_ptr<RolloutEngine> MakeExecEngine();

}  // namespace nxdkit::trainer
