// PRIVATE to trainer/config. The rows of the table of keys, section by section.
#pragma once

#include <vector>

#include "trainer/config/key_table.h"

namespace nxdkit::trainer {

// All keys, in the order in which they are printed.
std::vector<ConfigKey> MakeConfigKeys();

}  // namespace nxdkit::trainer
