// PRIVATE to trainer/model. What a config.json may say besides what is read of it.
#pragma once

#include "trainer/model/config_reader.h"

namespace nxdkit::trainer {

// A key that nobody knows here may change the arithmetic, as those of newer models do:
// kUnsupported, naming it, unless what it asks for is off (null, false, nothing).
void RefuseUnknownKeys(ConfigReader& reader);

}  // namespace nxdkit::trainer
