// PRIVATE: one entry of a compile cache, locked for use or for making it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "formats/compile_cache/cache.h"
#include "formats/compile_cache/manifest.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::neff {

using Poll = std::function<Status()>;

// Move-only. During its lifetime no prune and no other process removes or rewrites the entry.
class CacheSlot {
 public:
  // A finished blob of ours, locked for reading and marked as used now. `compiler` names the folder
  // ("neuronxcc-2.21..."); "" takes the latest version that has the entry. nullopt when there is
  // none; a blob whose files do not have the manifest's sizes is kCorrupt.
  static Result<std::optional<CacheSlot>> Use(const std::string& root, const std::string& compiler,
                                              const std::string& module, const Poll& poll);

  // The entry, made if necessary, with an exclusive lock; waits for another process that works on
  // it. The state shows what that process has done.
  static Result<CacheSlot> Make(const std::string& root, const std::string& compiler,
                                const std::string& module, const Poll& poll);

  const CacheEntry& entry() const { return entry_; }
  const std::string& path() const { return entry_.path; }
  // The compiler's run time for a finished entry; nullopt where it is not recorded.
  std::optional<double> CompileSeconds() const;

  // For Make: marks the entry as being made, and removes the remains of an earlier attempt. The
  // mark stays if the process dies.
  Status Begin();
  // For Make: removes everything.
  Status Empty();
  // For Make: writes flags, graph and manifest next to the files that are there, then model.done,
  // each synced; then others may read. `compile_seconds`, for the manifest: the compiler's run
  // time.
  Status Finish(const CacheKey& key, const std::string& summary, const Poll& poll,
                std::optional<double> compile_seconds = std::nullopt);
  // For Make: keeps the log as a remembered failure, with the flags and the graph; removes
  // everything else.
  Status Fail(const CacheKey& key, const std::string& log);

 private:
  CacheSlot(CacheEntry entry, FolderLock lock) : entry_(std::move(entry)), lock_(std::move(lock)) {}
  Status RemoveAllBut(std::string_view kept);
  Status WriteKey(const CacheKey& key) const;
  CacheEntry entry_;
  FolderLock lock_;
};

}  // namespace nxdkit::neff
