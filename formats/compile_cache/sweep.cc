#include "formats/compile_cache/sweep.h"

#include <algorithm>
#include <optional>
#include <set>

#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_owner.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/lite_verify.h"
#include "formats/compile_cache/neff_tree.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

class Sweeper {
 public:
  Sweeper(const FoundTree& tree, const PruneOptions& options, const std::string& locks)
      : tree_(tree),
        options_(options),
        moment_(MomentOf(tree.root, options.now_ns)),
        hold_{moment_, locks, options.dry_run} {}

  Result<PruneReport> Run() {
    NXDKIT_ASSIGN(const CacheListing listing, ListTreeOf(tree_, moment_));
    report_.bytes_before = report_.bytes_after = listing.bytes;
    NXDKIT_TRY(SweepBeside(listing));
    if (options_.damaged) NXDKIT_TRY(FindDamage(listing));
    std::vector<CacheEntry> kept;
    for (const CacheEntry& entry : listing.entries) {
      if (options_.poll) NXDKIT_TRY(options_.poll());
      NXDKIT_ASSIGN(const std::string reason, ReasonOf(entry));
      if (!reason.empty()) NXDKIT_TRY(Remove(entry, reason));
      if (reason.empty() && entry.state == EntryState::kDone) kept.push_back(entry);
    }
    NXDKIT_TRY(Evict(std::move(kept)));
    if (options_.everything && report_.in_use.empty()) NXDKIT_TRY(ClearBinaries());
    if (report_.bytes_after > options_.max_bytes)
      report_.over_limit_bytes = report_.bytes_after - options_.max_bytes;
    return std::move(report_);
  }

 private:
  std::string Path(std::string_view name) const { return JoinPath(tree_.root, name); }

  // The reason for which an entry goes whatever its age; "" when it stays.
  Result<std::string> ReasonOf(const CacheEntry& entry) const {
    if (options_.everything) return std::string("clear");
    if (entry.state == EntryState::kEmpty) {
      NXDKIT_ASSIGN(const int64_t last, LastChange(entry.path));
      const bool quiet = (moment_.now_ns - last) / kSecondNs >= QuietSeconds();
      return std::string(quiet || options_.empty ? "unfinished" : "");
    }
    return std::string(damaged_.contains(entry.module) ? "damaged" : "");
  }
  int64_t QuietSeconds() const { return moment_.shared ? kPatienceSeconds : kQuietSeconds; }

  // A graph whose kernels' binaries are gone is no damage of the entry: it is a hit all the same.
  Status FindDamage(const CacheListing& listing) {
    const TreeCheckOptions check{options_.poll, options_.check_blob};
    for (const CacheEntry& entry : listing.entries) {
      if (entry.state != EntryState::kDone) continue;
      const Result<std::vector<EntryFault>> faults = VerifyEntryOf(tree_.kind, entry, check);
      if (!faults.ok() && faults.error().code() == Errc::kNotFound) continue;
      if (!faults.ok()) return faults.error();
      if (!faults->empty()) damaged_.insert(entry.module);
    }
    if (tree_.kind != TreeKind::kLite) return OkStatus();
    BinaryLooker binaries;
    NXDKIT_ASSIGN(const std::vector<std::string> kernels, ListLiteKernels(tree_.root));
    for (const std::string& name : kernels) {
      NXDKIT_ASSIGN(const std::vector<EntryFault> faults,
                    VerifyLiteKernel(tree_.root, name, binaries));
      if (!faults.empty()) NXDKIT_TRY(RemoveKernel(JoinPath(kLiteKernelFolder, name), "damaged"));
    }
    return OkStatus();
  }

  Status Evict(std::vector<CacheEntry> entries) {
    std::ranges::stable_sort(entries, {}, &CacheEntry::used_ns);
    for (const CacheEntry& entry : entries) {
      if (report_.bytes_after <= options_.max_bytes) break;
      if ((moment_.now_ns - entry.used_ns) / kSecondNs < options_.keep_seconds) break;
      if (options_.poll) NXDKIT_TRY(options_.poll());
      NXDKIT_TRY(Remove(entry, "least recently used"));
    }
    return OkStatus();
  }

  Status Remove(const CacheEntry& entry, const std::string& reason) {
    const Pruned pruned{EntryName(entry), reason, entry.bytes};
    NXDKIT_ASSIGN(const std::optional<EntryHold> hold, HoldEntry(tree_, entry.module, hold_));
    if (!hold || entry.state == EntryState::kLocked)
      return report_.in_use.push_back(pruned), OkStatus();
    // Used or finished between the listing and the lock: it is another entry now.
    const Result<CacheEntry> now = ReadEntryOf(tree_, entry.module, moment_);
    if (!now.ok() && now.error().code() != Errc::kNotFound) return now.error();
    const bool same = now.ok() &&
                      (now->state == EntryState::kDone) == (entry.state == EntryState::kDone) &&
                      now->used_ns == entry.used_ns;
    if (now.ok() && !same) return report_.in_use.push_back(pruned), OkStatus();
    if (now.ok() && !options_.dry_run) NXDKIT_TRY(DiscardEntry(tree_, entry.module));
    report_.removed.push_back(pruned);
    report_.bytes_after -= std::min(report_.bytes_after, pruned.bytes);
    return OkStatus();
  }

  // Leftovers, owners that died, and with clear the kernels.
  Status SweepBeside(const CacheListing& listing) {
    if (tree_.kind == TreeKind::kNeff) {
      NXDKIT_ASSIGN(const std::vector<std::string> names, AbandonedInNeffTree(listing, moment_));
      for (const std::string& name : names) NXDKIT_TRY(RemoveBeside(name, "leftover"));
      return OkStatus();
    }
    NXDKIT_TRY(SweepNames(""));
    NXDKIT_TRY(SweepNames(kLiteKernelFolder));
    NXDKIT_TRY(SweepNames(JoinPath(kLiteKernelFolder, kLiteBinaryFolder)));
    for (const CacheEntry& entry : listing.entries)
      if (entry.state == EntryState::kDone) NXDKIT_TRY(SweepNames(entry.module));
    if (!options_.everything) return OkStatus();
    NXDKIT_ASSIGN(const std::vector<std::string> kernels, ListLiteKernels(tree_.root));
    for (const std::string& name : kernels)
      NXDKIT_TRY(RemoveKernel(JoinPath(kLiteKernelFolder, name), "clear"));
    return OkStatus();
  }

  Status SweepNames(const std::string& folder) {
    const std::string path = folder.empty() ? tree_.root : Path(folder);
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(path));
    for (const std::string& base : names) {
      const std::string name = folder.empty() ? base : JoinPath(folder, base);
      if (const std::optional<Leftover> leftover = ParseLeftover(base)) {
        NXDKIT_ASSIGN(const bool abandoned, IsAbandoned(Path(name), *leftover, moment_));
        if (abandoned) NXDKIT_TRY(RemoveBeside(name, "leftover"));
      } else if (const std::optional<std::string> key = KeyOfOwnerFile(name)) {
        NXDKIT_TRY(SweepOwner(name, *key));
      }
    }
    return OkStatus();
  }

  Status SweepOwner(const std::string& name, const std::string& key) {
    NXDKIT_ASSIGN(const OwnerState owner, AskOwner(tree_.root, key, moment_));
    if (owner != OwnerState::kDead) return OkStatus();
    NXDKIT_ASSIGN(const std::optional<EntryHold> hold, HoldEntry(tree_, key, hold_));
    return hold ? RemoveBeside(name, "dead owner") : OkStatus();
  }

  // When nothing is left that names them.
  Status ClearBinaries() {
    const std::string name = JoinPath(kLiteKernelFolder, kLiteBinaryFolder);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(Path(name)));
    return info.kind == PathKind::kFolder ? RemoveBeside(name, "clear") : OkStatus();
  }

  Status RemoveKernel(const std::string& file, const char* reason) {
    const std::string lock = Path(file.substr(0, file.size() - 5) + ".lock");
    NXDKIT_ASSIGN(const bool has_lock, IsThere(lock));
    if (!has_lock || !IsHeld(lock)) return RemoveBeside(file, reason);
    report_.in_use.push_back({file, reason, 0});
    return OkStatus();
  }

  // Removes something that is no entry; its bytes are not counted with theirs.
  Status RemoveBeside(const std::string& name, const char* reason) {
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(Path(name)));
    if (!options_.dry_run) NXDKIT_TRY(RemoveTree(Path(name)));
    report_.removed.push_back({name, reason, info.kind == PathKind::kFile ? info.bytes : 0});
    return OkStatus();
  }

  const FoundTree& tree_;
  const PruneOptions& options_;
  TreeMoment moment_;
  HoldOptions hold_;
  std::set<std::string> damaged_;
  PruneReport report_;
};

}  // namespace

Result<PruneReport> Sweep(const FoundTree& tree, const PruneOptions& options,
                          const std::string& neff_tree_locks) {
  NXDKIT_CHECK(tree.kind != TreeKind::kXla);
  if (options.only_compiler)
    return BadUsage("a tree of {}: no entry says what compiled it", TreeName(tree.kind))
        .in(tree.root);
  return Sweeper(tree, options, neff_tree_locks).Run();
}

}  // namespace nxdkit::neff
