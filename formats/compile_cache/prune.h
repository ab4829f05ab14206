// Makes room in a compile cache.
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
  // Least recently used finished entries are removed until the cache has at most this size; the
  // defaults are those of the vendor's guide.
  uint64_t max_bytes = 100'000'000'000;
  int64_t keep_seconds = 30 * 24 * 3600;       // entries used more recently stay
  int64_t now_ns = 0;                          // 0: the clock
  bool failed = true;                          // remembered failures
  bool stale_locks = true;                     // entries whose maker died
  bool empty = false;                          // unfinished entries, nobody working on them
  bool damaged = false;                        // finished entries for which IsDamaged is true
  std::optional<std::string> only_compiler{};  // entries of other compilers are removed
  bool everything = false;                     // all entries are removed (clear)
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
  std::vector<Pruned> removed;  // with dry_run: would be removed
  std::vector<Pruned> in_use;   // would be removed, but are held
  uint64_t bytes_before = 0;    // of all entries, and binaries in nki/
  uint64_t bytes_after = 0;
  uint64_t over_limit_bytes = 0;  // remaining: entries in use, or used too recently
};

// Removes entries, each under its lock and with one rename, so that no process ever sees half of
// one. Entries that others use or make stay. Only folders named like entries are touched; links are
// not followed.
Result<PruneReport> Prune(const std::string& root, const PruneOptions& options);

}  // namespace nxdkit::neff
