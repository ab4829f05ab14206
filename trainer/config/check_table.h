// PRIVATE to trainer/config. What the table of keys says by itself: limits, words, and keys that do
// nothing here.
#pragma once

#include "trainer/config/checker.h"

namespace nxdkit::trainer {

// False when a number is outside its limits, so that arithmetic with it would mean nothing.
bool CheckTable(Checker& check);

}  // namespace nxdkit::trainer
