// A value into the slot of a key, with its type checked.
#pragma once

#include <string>

#include "trainer/config/key_table.h"
#include "trainer/config/value.h"

namespace nxdkit::trainer {

// "" when done, else what is wrong: "expected int, found the string \"x\"". The slot is unchanged
// then. A float takes an integer; an integer takes no fraction; a string takes any scalar but
// null, as it is written; null is for optional keys; quoted text is a string, whatever it looks
// like. An open map is merged key by key.
std::string AssignSlot(const ConfigSlot& slot, const Value& value);

}  // namespace nxdkit::trainer
