// PRIVATE to trainer/config. Conflicts between keys of the algorithm, the optimizers and the logs.
#pragma once

#include "trainer/config/checker.h"

namespace nxdkit::trainer {

void CheckAlgorithm(Checker& check);

}  // namespace nxdkit::trainer
