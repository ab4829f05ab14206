#include "formats/compile_cache/prune.h"

#include <algorithm>

#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/leftovers.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

class Pruner {
 public:
  Pruner(const std::string& root, const PruneOptions& options)
      : root_(root), options_(options), now_(MomentOf(root, options.now_ns).now_ns) {}

  Result<PruneReport> Run() {
    NXDKIT_ASSIGN(CacheListing listing, ListCache(root_));
    report_.bytes_before = report_.bytes_after = listing.bytes;
    if (!options_.dry_run) EmptyTrash();
    std::vector<CacheEntry> kept;
    for (CacheEntry& entry : listing.entries) {
      if (options_.poll) NXDKIT_TRY(options_.poll());
      NXDKIT_ASSIGN(const std::string reason, ReasonOf(entry));
      if (reason.empty())
        kept.push_back(std::move(entry));
      else
        NXDKIT_TRY(Remove(entry, reason));
    }
    NXDKIT_TRY(Evict(std::move(kept)));
    if (report_.bytes_after > options_.max_bytes)
      report_.over_limit_bytes = report_.bytes_after - options_.max_bytes;
    return std::move(report_);
  }

 private:
  // The reason to remove an entry whatever its age; "" when it stays.
  Result<std::string> ReasonOf(const CacheEntry& entry) const {
    const auto reason = [](bool goes, const char* text) { return std::string(goes ? text : ""); };
    if (options_.everything) return reason(true, "clear");
    if (options_.only_compiler && entry.compiler != *options_.only_compiler)
      return reason(true, "other compiler");
    if (entry.state == EntryState::kFailed) return reason(options_.failed, "failed");
    if (entry.state == EntryState::kLocked) return reason(options_.stale_locks, "stale lock");
    if (entry.state == EntryState::kEmpty) return reason(options_.empty, "empty");
    if (!options_.damaged) return std::string();
    NXDKIT_ASSIGN(const std::vector<EntryFault> faults,
                  VerifyEntry(entry, options_.poll, options_.check_blob));
    return reason(IsDamaged(faults), "damaged");
  }

  Status Evict(std::vector<CacheEntry> entries) {
    std::erase_if(entries, [](const auto& e) { return e.state != EntryState::kDone; });
    std::ranges::stable_sort(entries, {}, &CacheEntry::used_ns);
    for (const CacheEntry& entry : entries) {
      if (report_.bytes_after <= options_.max_bytes) break;
      const int64_t unused_seconds = (now_ - entry.used_ns) / kSecondNs;
      if (unused_seconds < options_.keep_seconds) break;  // nor are any that follow
      if (options_.poll) NXDKIT_TRY(options_.poll());
      NXDKIT_TRY(Remove(entry, "least recently used"));
    }
    return OkStatus();
  }

  Status Remove(const CacheEntry& entry, const std::string& reason) {
    const Pruned pruned{JoinPath(entry.compiler, entry.module), reason, entry.bytes};
    Result<std::optional<FolderLock>> lock = TryLock(entry.path, FolderLock::Mode::kExclusive);
    if (!lock.ok() && lock.error().code() == Errc::kNotFound) return Count(pruned);  // removed by
    if (!lock.ok()) return std::move(lock).error();  // another prune
    const auto keep = [&] {
      report_.in_use.push_back(pruned);
      return OkStatus();
    };
    if (!*lock || AnyLockHeld(entry.path)) return keep();
    // Used or finished between the listing and the lock: it is another entry now.
    NXDKIT_ASSIGN(const CacheEntry now, ReadEntry(entry.path));
    if (now.state != entry.state || now.used_ns != entry.used_ns) return keep();
    if (!options_.dry_run) NXDKIT_TRY(DiscardFromCache(root_, entry.path));
    return Count(pruned);
  }

  Status Count(const Pruned& pruned) {
    report_.removed.push_back(pruned);
    report_.bytes_after -= std::min(report_.bytes_after, pruned.bytes);
    return OkStatus();
  }

  // Removes what a killed prune had moved there, and a killed merge had begun to build.
  void EmptyTrash() const {
    const Result<std::vector<std::string>> names = ListFolder(root_);
    if (!names.ok()) return;
    const TreeMoment moment = MomentOf(root_, now_);
    for (const std::string& name : *names) {
      const std::string path = JoinPath(root_, name);
      const std::optional<Leftover> leftover = ParseLeftover(name);
      const bool of_merge = leftover && leftover->of == kMergePrefix;
      const Result<bool> goes =
          of_merge ? IsAbandoned(path, *leftover, moment) : name.starts_with(kTrashPrefix);
      if (goes.ok() && *goes) (void)RemoveTree(path).ok();
    }
  }

  const std::string& root_;
  const PruneOptions& options_;
  int64_t now_;
  PruneReport report_;
};

}  // namespace

Result<PruneReport> Prune(const std::string& root, const PruneOptions& options) {
  return Pruner(root, options).Run();
}

}  // namespace nxdkit::neff
