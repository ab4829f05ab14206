// Code common to the entries of all trees: real folders, counted and verified files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/cache.h"
#include "formats/compile_cache/verify_entry.h"

namespace nxdkit::neff {

bool IsLowerHex(std::string_view text);  // true for ""

// Whether the path is a folder, not a link to one: listed entries may be removed.
Result<bool> IsRealFolder(const std::string& path);

// Adds up the files of an entry's folder. A file that disappears meanwhile is not counted.
Status CountFiles(CacheEntry& entry);

// "<compiler>/<module>", or the module alone in trees without compiler folders.
std::string EntryName(const CacheEntry& entry);

// Turns an error of a file into a fault of the entry; errors of the system and the user are
// returned.
Status KeepFault(const std::string& file, const Status& checked, std::vector<EntryFault>& faults,
                 Severity severity = Severity::kDamage);

// Faults of a NEFF that is a separate file: header, size, hash of the payload.
Result<std::vector<std::string>> NeffFaults(const std::string& path,
                                            const std::function<Status()>& poll);

// Reading a payload to check it is not a use and must not change the order of eviction: the
// destructor restores the time of the last access.
class KeepAccessTime {
 public:
  explicit KeepAccessTime(std::string path);
  KeepAccessTime(const KeepAccessTime&) = delete;
  KeepAccessTime& operator=(const KeepAccessTime&) = delete;
  ~KeepAccessTime();

 private:
  std::string path_;
  PathInfo before_;
};

}  // namespace nxdkit::neff
