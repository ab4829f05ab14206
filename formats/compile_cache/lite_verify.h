// Faults of an entry of a vLLM Neuron tree, and of what lies beside entries. Facts:
// FORMAT.md beside this file, read from source, not run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/compile_cache/leftovers.h"
#include "formats/compile_cache/verify_entry.h"

namespace nxdkit::neff {

// Faults of the paths of kernels' binaries, each asked for once: "" when a file is there.
class BinaryLooker {
 public:
  const std::string& FaultOf(const std::string& binary);

 private:
  std::map<std::string, std::string> seen_;
};

// Faults of a folder with the files of an entry of key entry.module, wherever it lies: marker,
// sizes, NEFF, metadata, command, and, unless `kernels` is null, the binaries that the graph names.
// A file that an entry lacks is a fault as well, but in one that is being made (kLocked). Those of
// marker, NEFF and metadata alone are damage; leftovers are no faults of the entry.
Result<std::vector<EntryFault>> VerifyLiteEntry(const CacheEntry& entry,
                                                const std::function<Status()>& poll,
                                                BinaryLooker* kernels);

// Faults of nki/<name>: the file, and binaries that it names and that are not there.
Result<std::vector<EntryFault>> VerifyLiteKernel(const std::string& root, const std::string& name,
                                                 BinaryLooker& binaries);

// Kernels, owners that died before their entry was finished, leftovers in the root, in nki/, in
// nki/binaries/ and in entries, folders that are entries and not named like one. The file
// of a fault is below the root.
Result<std::vector<EntryFault>> VerifyBesideLite(const CacheListing& listing,
                                                 const TreeMoment& moment, BinaryLooker& kernels,
                                                 const std::function<Status()>& poll);

}  // namespace nxdkit::neff
