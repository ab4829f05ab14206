// PRIVATE to trainer/config. Whether the files and folders that are named are there.
#pragma once

#include "trainer/config/checker.h"

namespace nxdkit::trainer {

void CheckFiles(Checker& check);

}  // namespace nxdkit::trainer
