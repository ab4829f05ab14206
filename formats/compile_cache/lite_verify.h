// Faults of the entries of a vLLM Neuron tree, and of the other files in it. Facts: FORMAT.md, read
// from source, not run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/compile_cache/leftovers.h"
#include "formats/compile_cache/verify_entry.h"

namespace nxdkit::neff {

// Faults of the paths of kernels' binaries, each checked once: "" when the file exists.
class BinaryLooker {
 public:
  const std::string& FaultOf(const std::string& binary);

 private:
  std::map<std::string, std::string> seen_;
};

// Faults of a folder, wherever it is, with the files of an entry of key entry.module: marker,
// sizes, NEFF, metadata, command, and, unless `kernels` is null, the binaries that the graph names.
// A missing file is a fault too, except in an entry that is being made (kLocked). Only faults of
// marker, NEFF and metadata are damage; leftovers are not faults of the entry.
Result<std::vector<EntryFault>> VerifyLiteEntry(const CacheEntry& entry,
                                                const std::function<Status()>& poll,
                                                BinaryLooker* kernels);

// Faults of nki/<name>: the file, and missing binaries that it names.
Result<std::vector<EntryFault>> VerifyLiteKernel(const std::string& root, const std::string& name,
                                                 BinaryLooker& binaries);

// Faults of kernels, of owners that died before their entry was finished, of leftovers in the root,
// in nki/, in nki/binaries/ and in entries, and of entries whose folders are not named like one.
// The file of a fault is relative to the root.
Result<std::vector<EntryFault>> VerifyBesideLite(const CacheListing& listing,
                                                 const TreeMoment& moment, BinaryLooker& kernels,
                                                 const std::function<Status()>& poll);

}  // namespace nxdkit::neff
