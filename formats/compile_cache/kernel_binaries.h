// PRIVATE: the kernel binaries in a vLLM Neuron tree, nki/binaries/, and which of them something in
// the tree names.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/compile_cache/cache.h"

namespace nxdkit::neff {

struct KernelBinary {
  std::string name;  // below the root
  uint64_t bytes = 0;
  int64_t written_ns = 0;
};
// Links and leftovers are left out; empty if the folder is missing, or a link.
Result<std::vector<KernelBinary>> ListKernelBinaries(const std::string& root);

// Base names of the binaries that the kernels of a tree and the graphs of its entries name, since a
// share may be mounted elsewhere; nullopt when there is a file whose names cannot be determined.
// `goes`: entries and kernels that do not count.
Result<std::optional<std::set<std::string>>> NamedBinaries(const CacheListing& listing,
                                                           const std::set<std::string>& goes,
                                                           const std::function<Status()>& poll);

}  // namespace nxdkit::neff
