// The entries of a compile cache that a run uses, according to a file.
#pragma once

#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"

namespace nxdkit::ops {

// `path`: the --json output of neuron-cache collect, warm or check; or any text that names entries,
// a list or the log of a run. The existing entries that it names, sorted, and those that do not
// exist.
struct UsedEntries {
  std::vector<std::string> there;
  std::vector<std::string> missing;
};
Result<UsedEntries> ReadUsedBy(const std::string& path, const neff::FoundTree& tree);

}  // namespace nxdkit::ops
