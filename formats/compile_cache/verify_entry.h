// Faults of an entry of a compile cache.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/compile_cache/cache.h"

namespace nxdkit::neff {

// Faults of a model.pt, one line each; passed in by the caller, because one format's folder does
// not include another's.
using BlobCheck = std::function<Result<std::vector<std::string>>(
    const std::string& path, const std::function<Status()>& poll)>;

// The severity of a fault.
enum class Severity : uint8_t {
  kRemark,  // reported; the engine does not mind
  kWrong,   // a finding: the engine may fail, or repeats its work
  kDamage   // also a finding; the entry must not be kept or passed on
};

// Faults of a finished entry, one line each: flags that contradict the name, a damaged NEFF header,
// a payload without its hash, a compressed graph without its checksum, files that differ from the
// manifest, and faults that `check_blob` finds in a blob. Reads everything; leaves the time of last
// use unchanged.
struct EntryFault {
  std::string file;  // inside the entry; "" for the entry itself
  std::string message;
  Severity severity = Severity::kDamage;
};
bool IsDamaged(const std::vector<EntryFault>& faults);
Result<std::vector<EntryFault>> VerifyEntry(const CacheEntry& entry,
                                            const std::function<Status()>& poll = {},
                                            const BlobCheck& check_blob = {});

}  // namespace nxdkit::neff
