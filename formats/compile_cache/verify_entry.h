// What is wrong with an entry of a compile cache.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/compile_cache/cache.h"

namespace nxdkit::neff {

// What is wrong with a model.pt, one line each; given by the caller, because one format's folder
// does not include another's.
using BlobCheck = std::function<Result<std::vector<std::string>>(
    const std::string& path, const std::function<Status()>& poll)>;

// What is wrong with a finished entry, one line each: flags that the name does not follow from, a
// damaged NEFF header, a payload without its hash, a compressed graph without its checksum, files
// that are not those of the manifest, and what `check_blob` finds in a blob. Reads all of it;
// leaves the time of last use alone.
struct EntryFault {
  std::string file;  // inside the entry; "" for the entry itself
  std::string message;
};
Result<std::vector<EntryFault>> VerifyEntry(const CacheEntry& entry,
                                            const std::function<Status()>& poll = {},
                                            const BlobCheck& check_blob = {});

}  // namespace nxdkit::neff
