// Moves the binaries of kernels: changes their paths in nki/*.json and in the graphs of a vLLM
// Neuron tree.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

struct RelocateOptions {
  std::string from, to;  // absolute folders, or one binary's paths, without a slash at the end
  bool dry_run = false;
  std::function<Status()> poll;
};

struct Relocated {
  std::string file;    // below the root
  std::string reason;  // "" when it was changed; "in use", "gone", "changed meanwhile", its fault
};
struct RelocateReport {
  std::vector<Relocated> changed;    // with dry_run: would be changed
  std::vector<Relocated> left;       // not read, or not understood: paths unchanged
  std::vector<std::string> missing;  // new paths without a file
  uint64_t looked_at = 0;            // files
};

// Every file is replaced as a whole, by one rename of a synced copy, under the lock of its entry or
// kernel; one that was replaced or removed since it was read is left. Keys do not change: paths are
// not part of them. kUnsupported for other trees, in which nothing names a path.
Result<RelocateReport> RelocateKernels(const FoundTree& tree, const RelocateOptions& options);

}  // namespace nxdkit::neff
