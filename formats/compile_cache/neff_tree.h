// The compile cache of TorchNeuron (native): one bare NEFF for each graph, in folders named by the
// first digits of its key.
//
//   ROOT/<hex 1-2>/<hex 3-4>/<32 hex>.neff
//   ROOT/<sha256>/<sha256>.neff              of an older path
//
// Nothing but the file says anything of an entry: no marker, no metadata, no version. Facts:
// FORMAT.md beside this file, read from source, not run.
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

// Folders of two digits in folders of two digits, or of 64 digits with a NEFF of their name.
Result<bool> IsNeffTree(const std::string& root);

// In the order of names. An entry's module is the file's path below the root. kDone: it is not
// empty, which is all that its reader asks; kEmpty: it is, and counts as a miss.
Result<CacheListing> ListNeffTree(const std::string& root);
Result<CacheEntry> ReadNeffEntry(const std::string& root, const std::string& name);

std::string NeffTreeKey(std::string_view name);    // "0123..." of "01/23/0123....neff"
bool IsNeffTreeAside(std::string_view base_name);  // ".tmp.XXXXXX"

// A name that leads nowhere, an empty file, a damaged NEFF.
Result<std::vector<EntryFault>> VerifyNeffEntry(const CacheEntry& entry,
                                                const std::function<Status()>& poll);
// Files that were written aside and left: nothing names their process, so that they have to be a
// day old.
Result<std::vector<std::string>> AbandonedInNeffTree(const CacheListing& listing,
                                                     const TreeMoment& moment);

}  // namespace nxdkit::neff
