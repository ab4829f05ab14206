// The compile cache of TorchNeuron (native): one bare NEFF for each graph, in folders named by the
// first digits of its key.
//
// ROOT/<hex 1-2>/<hex 3-4>/<32 hex>.neff
// ROOT/<sha256>/<sha256>.neff              by an older code path
//
// Nothing describes an entry except the file itself: no marker, no metadata, no version. Facts:
// FORMAT.md, read from source, not run.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/cache.h"
#include "formats/compile_cache/leftovers.h"
#include "formats/compile_cache/verify_entry.h"

namespace nxdkit::neff {

inline constexpr char kNeffTreeLocks[] = "/tmp/local_cache/locks";  // by default

// Whether there are folders of two digits in folders of two digits, or of 64 digits with a NEFF of
// the same name.
Result<bool> IsNeffTree(const std::string& root);

// Sorted by name. An entry's module is the file's path below the root. kDone: it is not empty,
// which is all that its reader checks; kEmpty: it is empty, and counts as a miss.
Result<CacheListing> ListNeffTree(const std::string& root);
Result<CacheEntry> ReadNeffEntry(const std::string& root, const std::string& name);

std::string NeffTreeKey(std::string_view name);    // "0123..." for "01/23/0123....neff"
bool IsNeffTreeAside(std::string_view base_name);  // ".tmp.XXXXXX"

// Faults: a name that leads nowhere, an empty file, a damaged NEFF.
Result<std::vector<EntryFault>> VerifyNeffEntry(const CacheEntry& entry,
                                                const std::function<Status()>& poll);
// Abandoned temporary files: their names do not show a process, so they must be a day old.
Result<std::vector<std::string>> AbandonedInNeffTree(const CacheListing& listing,
                                                     const TreeMoment& moment);

}  // namespace nxdkit::neff
