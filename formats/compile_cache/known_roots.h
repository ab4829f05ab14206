// The default folders of the engines' trees, and those that their variables name. Facts: FORMAT.md,
// read from source, not run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

// The value of an environment variable; "" if it is not set.
using VariableReader = std::function<std::string(const char* name)>;

// The roots of one kind, the likeliest first, whether they exist or not. Empty for kXla, which
// place.h finds.
std::vector<std::string> KnownRoots(TreeKind kind, const VariableReader& variable);
// Those that exist and hold a tree of their kind.
Result<std::vector<FoundTree>> TreesOfThisMachine(const VariableReader& variable);

// The folder of TorchNeuron's locks.
std::string NeffTreeLocks(const VariableReader& variable);

}  // namespace nxdkit::neff
