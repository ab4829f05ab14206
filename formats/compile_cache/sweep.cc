#include "formats/compile_cache/sweep.h"

#include <algorithm>
#include <optional>
#include <set>

#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/kernel_binaries.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_owner.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/lite_verify.h"
#include "formats/compile_cache/neff_tree.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

uint64_t BytesOf(const std::vector<KernelBinary>& files) {
  uint64_t bytes = 0;
  for (const KernelBinary& file : files) bytes += file.bytes;
  return bytes;
}

class Sweeper {
 public:
  Sweeper(const FoundTree& tree, const PruneOptions& options, const std::string& locks)
      : tree_(tree),
        options_(options),
        moment_(MomentOf(tree.root, options.now_ns)),
        hold_{moment_, locks, options.dry_run} {}

  Result<PruneReport> Run() {
    NXDKIT_ASSIGN(const CacheListing listing, ListTreeOf(tree_, moment_));
    std::vector<KernelBinary> binaries;
    if (tree_.kind == TreeKind::kLite) NXDKIT_TRY(ListKernelBinaries(tree_.root).To(binaries));
    report_.bytes_before = report_.bytes_after = listing.bytes + BytesOf(binaries);
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
    NXDKIT_TRY(SweepBinaries(binaries));
    if (report_.bytes_after > options_.max_bytes)
      report_.over_limit_bytes = report_.bytes_after - options_.max_bytes;
    return std::move(report_);
  }

 private:
  std::string Path(std::string_view name) const { return JoinPath(tree_.root, name); }

  // The reason to remove an entry whatever its age; "" when it stays.
  Result<std::string> ReasonOf(const CacheEntry& entry) const {
    if (options_.everything) return std::string("clear");
    if (entry.state == EntryState::kEmpty) {
      NXDKIT_ASSIGN(const int64_t last, LastChange(entry.path));
      return std::string(!IsYoung(last) || options_.empty ? "unfinished" : "");
    }
    return std::string(damaged_.contains(entry.module) ? "damaged" : "");
  }
  int64_t QuietSeconds() const { return moment_.shared ? kPatienceSeconds : kQuietSeconds; }

  // Missing kernel binaries of a graph are not damage of the entry: it still counts as a hit.
  Status FindDamage(const CacheListing& listing) {
    const TreeCheckOptions check{options_.poll, options_.check_blob};
    for (const CacheEntry& entry : listing.entries) {
      if (entry.state != EntryState::kDone) continue;
      const Result<std::vector<EntryFault>> faults = VerifyEntryOf(tree_.kind, entry, check);
      if (!faults.ok() && faults.error().code() == Errc::kNotFound) continue;
      if (!faults.ok()) return faults.error();
      if (IsDamaged(*faults)) damaged_.insert(entry.module);
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
    std::string trash;  // removed when the lock is released
    NXDKIT_TRY(RemoveHeld(entry, pruned, trash));
    return trash.empty() ? OkStatus() : RemoveTree(trash);
  }

  Status RemoveHeld(const CacheEntry& entry, const Pruned& pruned, std::string& trash) {
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
    if (now.ok() && !options_.dry_run) NXDKIT_TRY(MoveAway(tree_, entry.module).To(trash));
    report_.removed.push_back(pruned);
    report_.bytes_after -= std::min(report_.bytes_after, pruned.bytes);
    return OkStatus();
  }

  // Removes leftovers, dead owners, and with clear the kernels.
  Status SweepBeside(const CacheListing& listing) {
    if (tree_.kind == TreeKind::kNeff) {
      NXDKIT_ASSIGN(const std::vector<std::string> names, AbandonedInNeffTree(listing, moment_));
      for (const std::string& name : names) NXDKIT_TRY(RemoveBeside(name, "leftover"));
      return OkStatus();
    }
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(tree_.root));
    for (const std::string& name : names) {
      if (const std::optional<std::string> key = KeyOfOwnerFile(name))
        NXDKIT_TRY(SweepOwner(name, *key));
      if (const std::optional<std::string> key = KeyOfOwnerLock(name))
        NXDKIT_TRY(SweepLock(name, {*key, OwnerFileName(*key)}));
    }
    NXDKIT_ASSIGN(const std::vector<std::string> inner, ListIfThere(KernelFolder(tree_.root)));
    for (const std::string& base : inner) {
      if (!IsKernelLockName(base)) continue;
      const std::string stem = base.substr(0, base.size() - kLockSuffix.size());
      NXDKIT_TRY(SweepLock(JoinPath(kLiteKernelFolder, base),
                           {JoinPath(kLiteKernelFolder, stem + std::string(kKernelSuffix))}));
    }
    NXDKIT_ASSIGN(const std::vector<std::string> abandoned, AbandonedInLiteTree(listing, moment_));
    for (const std::string& name : abandoned) NXDKIT_TRY(RemoveBeside(name, "leftover"));
    if (!options_.everything) return OkStatus();
    NXDKIT_ASSIGN(const std::vector<std::string> kernels, ListLiteKernels(tree_.root));
    for (const std::string& name : kernels)
      NXDKIT_TRY(RemoveKernel(JoinPath(kLiteKernelFolder, name), "clear"));
    return OkStatus();
  }

  Status SweepOwner(const std::string& name, const std::string& key) {
    NXDKIT_ASSIGN(const OwnerState owner, AskOwner(tree_.root, key, moment_));
    if (owner != OwnerState::kDead) return OkStatus();
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(Path(name)));
    // The hold replaces the owner's file, and removes it.
    NXDKIT_ASSIGN(const std::optional<EntryHold> hold, HoldEntry(tree_, key, hold_));
    if (!hold) return OkStatus();
    report_.removed.push_back({name, "dead owner", info.bytes});
    return options_.dry_run ? OkStatus() : RemoveTree(Path(name));
  }

  // A lock that nobody holds, for something that no longer exists: left by a killed prune or merge.
  Status SweepLock(const std::string& name, const std::vector<std::string>& of) {
    for (const std::string& each : of) {
      NXDKIT_ASSIGN(const bool there, IsThere(Path(each)));
      if (there) return OkStatus();
    }
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(Path(name)));
    if (info.kind != PathKind::kFile || IsYoung(info.written_ns) || IsHeld(Path(name)))
      return OkStatus();
    report_.removed.push_back({name, "leftover", info.bytes});
    return options_.dry_run ? OkStatus() : RemoveIdleLock(Path(name));
  }

  bool IsYoung(int64_t changed_ns) const {
    return (moment_.now_ns - changed_ns) / kSecondNs < QuietSeconds();
  }

  // Removes binaries that nothing names, or all with clear. A merge shares the lock of their
  // folder: its binaries may not be named yet.
  Status SweepBinaries(const std::vector<KernelBinary>& binaries) {
    const std::string folder = JoinPath(kLiteKernelFolder, kLiteBinaryFolder);
    if (tree_.kind != TreeKind::kLite) return OkStatus();
    NXDKIT_ASSIGN(const bool there, IsRealFolder(Path(folder)));
    const bool clear = options_.everything && report_.in_use.empty();
    if (!there || (options_.everything && !clear)) return OkStatus();
    NXDKIT_ASSIGN(const std::optional<FolderLock> lock,
                  TryLock(Path(folder), FolderLock::Mode::kExclusive));
    if (!lock) {
      if (clear) report_.in_use.push_back({folder, "clear", BytesOf(binaries)});
      return OkStatus();
    }
    if (clear) return RemoveCounted({folder, BytesOf(binaries), 0}, "clear");
    if (binaries.empty()) return OkStatus();
    std::set<std::string> goes;  // in a dry run they still exist
    for (const Pruned& removed : report_.removed) goes.insert(removed.entry);
    NXDKIT_ASSIGN(const CacheListing listing, ListTreeOf(tree_, moment_));
    NXDKIT_ASSIGN(const std::optional<std::set<std::string>> named,
                  NamedBinaries(listing, goes, options_.poll));
    for (const KernelBinary& file : binaries)
      if (named && !named->contains(BaseName(file.name)) && !IsYoung(file.written_ns))
        NXDKIT_TRY(RemoveCounted(file, "not named"));
    return OkStatus();
  }

  Status RemoveCounted(const KernelBinary& file, const char* reason) {
    if (!options_.dry_run) NXDKIT_TRY(RemoveTree(Path(file.name)));
    report_.removed.push_back({file.name, reason, file.bytes});
    report_.bytes_after -= std::min(report_.bytes_after, file.bytes);
    return OkStatus();
  }

  Status RemoveKernel(const std::string& file, const char* reason) {
    NXDKIT_ASSIGN(const std::optional<EntryHold> hold, HoldKernel(Path(file), options_.dry_run));
    if (hold) return RemoveBeside(file, reason);
    report_.in_use.push_back({file, reason, 0});
    return OkStatus();
  }

  // Removes something that is not an entry; its bytes do not count as entries'.
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
    return BadUsage("a tree of {}: its entries do not record their compiler", TreeName(tree.kind))
        .in(tree.root);
  return Sweeper(tree, options, neff_tree_locks).Run();
}

}  // namespace nxdkit::neff
