// PRIVATE to trainer/config. Keys of the algorithm, optimizer and logs that do not go together.
#pragma once

#include "trainer/config/checker.h"

namespace nxdkit::trainer {

void CheckAlgorithm(Checker& check);

}  // namespace nxdkit::trainer
