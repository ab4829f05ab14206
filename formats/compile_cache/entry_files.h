// Common ground of the entries of all trees: folders of their own, files that are counted and
// checked.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/cache.h"
#include "formats/compile_cache/verify_entry.h"

namespace nxdkit::neff {

bool IsLowerHex(std::string_view text);  // "" is

// A folder itself, not a link to one: what is listed may be removed.
Result<bool> IsRealFolder(const std::string& path);

// Sums up the files of an entry's folder. A file that goes meanwhile counts nothing.
Status CountFiles(CacheEntry& entry);

// "<compiler>/<module>", or the module alone in trees without compilers' folders.
std::string EntryName(const CacheEntry& entry);

// Errors of a file become faults of the entry; those of the system and of the user are handed on.
Status KeepFault(const std::string& file, const Status& checked, std::vector<EntryFault>& faults,
                 Severity severity = Severity::kDamage);

// Faults of a NEFF that is a file of its own: header, size, hash of the payload.
Result<std::vector<std::string>> NeffFaults(const std::string& path,
                                            const std::function<Status()>& poll);

// To read a payload is no use of it: the order of eviction stays. The time of the last read is put
// back when this goes.
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
