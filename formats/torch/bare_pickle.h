// PRIVATE: a file that is one pickle, without tensors, in the words of its own allow-list.
#pragma once

#include <string_view>

#include "formats/torch/pickle_globals.h"
#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"

namespace nxdkit::torch {

// Plain containers, and records of what `globals` names. Nothing is executed: what is not on the
// list is kUnsupported, by name, at the offset in the pickle. So are tensors. kCorrupt for bytes
// after the pickle's end.
Result<PickleValue> ReadBarePickle(std::string_view pickle, const GlobalTable& globals);

}  // namespace nxdkit::torch
