// Making room in a compile cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/verify_entry.h"
#include "lib/base/error.h"

namespace nxdkit::neff {

struct PruneOptions {
  // Least recently used finished entries go until the cache has no more than this; the defaults are
  // those of the vendor's guide.
  uint64_t max_bytes = 100'000'000'000;
  int64_t keep_seconds = 30 * 24 * 3600;       // but none that was used this short a time ago
  int64_t now_ns = 0;                          // 0: the clock
  bool failed = true;                          // remembered failures
  bool stale_locks = true;                     // entries whose maker died
  bool empty = false;                          // unfinished entries that nobody works on
  bool damaged = false;                        // finished entries that IsDamaged says are
  std::optional<std::string> only_compiler{};  // entries of all other compilers go
  bool everything = false;                     // all entries go (clear)
  bool dry_run = false;
  std::function<Status()> poll{};
  BlobCheck check_blob{};  // with `damaged`
};

struct Pruned {
  std::string entry;   // "neuronxcc-.../MODULE_..."
  std::string reason;  // "failed", "stale lock", "empty", "damaged", "other compiler", "least
                       // recently used", "clear"; sweep.h has more
  uint64_t bytes = 0;
};

struct PruneReport {
  std::vector<Pruned> removed;  // with dry_run: that would be
  std::vector<Pruned> in_use;   // would have gone, but somebody holds them
  uint64_t bytes_before = 0;    // of all entries, and of binaries in nki/
  uint64_t bytes_after = 0;
  uint64_t over_limit_bytes = 0;  // still: entries in use, or used too short a time ago
};

// Removes entries, each under its lock and in one rename, so that no process ever sees half of one.
// Entries that others are using or making are left. Only folders that are named like entries are
// touched; links are not followed.
Result<PruneReport> Prune(const std::string& root, const PruneOptions& options);

}  // namespace nxdkit::neff
