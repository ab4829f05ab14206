// Which entries of a compile cache a run uses, as a file tells.
#pragma once

#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"

namespace nxdkit::ops {

// `path`: what neuron-cache collect, warm or check said with --json; or any text in which entries
// are named, a list or the log of a run. Names of entries of the tree that are there, sorted, and
// those that are not.
struct UsedEntries {
  std::vector<std::string> there;
  std::vector<std::string> missing;
};
Result<UsedEntries> ReadUsedBy(const std::string& path, const neff::FoundTree& tree);

}  // namespace nxdkit::ops
