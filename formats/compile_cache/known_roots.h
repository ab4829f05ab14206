// Where the engines keep their trees by default, and where their variables say. Facts: FORMAT.md
// beside this file, read from source, not run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

// The value of a variable of the environment; "" where it is not set.
using VariableReader = std::function<std::string(const char* name)>;

// The roots of one kind, the likeliest first, whether they are there or not. None of kXla, which
// place.h finds.
std::vector<std::string> KnownRoots(TreeKind kind, const VariableReader& variable);
// Those that are there and hold a tree of their kind.
Result<std::vector<FoundTree>> TreesOfThisMachine(const VariableReader& variable);

// The folder of TorchNeuron's locks.
std::string NeffTreeLocks(const VariableReader& variable);

}  // namespace nxdkit::neff
