// PRIVATE to trainer/config. Rules of worker.rollout's engine: what belongs together, and what the
// engines of other programs cannot do.
#pragma once

#include "trainer/config/checker.h"

namespace nxdkit::trainer {

void CheckEngine(Checker& check);

}  // namespace nxdkit::trainer
