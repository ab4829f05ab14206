// PRIVATE to trainer/config. Rules for worker.rollout's engine: keys that belong together, and
// limits of the engines of other programs.
#pragma once

#include "trainer/config/checker.h"

namespace nxdkit::trainer {

void CheckEngine(Checker& check);

}  // namespace nxdkit::trainer
