#include "formats/compile_cache/merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "formats/compile_cache/copy_entry.h"
#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/merge_kernels.h"
#include "formats/compile_cache/publish.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

bool IsDamage(const Error& error) {
  return error.code() == Errc::kCorrupt || error.code() == Errc::kUnsupported ||
         error.code() == Errc::kNotFound;
}

// The state of INTO's entry of some name.
enum class There { kNothing, kUnfinished, kDamaged, kWhole, kInUse };

const char* ReasonToCopy(There there) {
  return there == There::kUnfinished ? "was unfinished"
         : there == There::kDamaged  ? "was damaged"
                                     : "new";
}

class Merger {
 public:
  Merger(FoundTree from, FoundTree into, const MergeOptions& options)
      : from_(std::move(from)),
        into_(std::move(into)),
        options_(options),
        moment_(MomentOf(into_.root)),
        batch_(into_.root),
        kernels_(from_.root, into_.root, options, batch_, report_) {
    report_.kind = from_.kind;
    report_.from = from_.root;
    report_.into = into_.root;
  }

  Result<MergeReport> Run() {
    NXDKIT_ASSIGN(const CacheListing listing, ListTreeOf(from_, MomentOf(from_.root)));
    if (from_.kind == TreeKind::kLite) NXDKIT_TRY(kernels_.MergeAll());
    for (const CacheEntry& entry : listing.entries) {
      if (options_.poll) NXDKIT_TRY(options_.poll());
      if (options_.only && !options_.only->contains(EntryName(entry))) continue;
      NXDKIT_TRY(MergeOne(entry));
    }
    NXDKIT_TRY(batch_.Flush());
    return std::move(report_);
  }

 private:
  Status Leave(const CacheEntry& entry, const char* reason, std::string message = "") {
    report_.left.push_back({EntryName(entry), reason, std::move(message), entry.bytes});
    return OkStatus();
  }

  Status MergeOne(const CacheEntry& entry) {
    if (!entry.well_named) return Leave(entry, "damaged", "no reader looks for this name");
    if (entry.state == EntryState::kLocked) return Leave(entry, "in use");
    if (entry.state != EntryState::kDone) return Leave(entry, "unfinished");
    NXDKIT_ASSIGN(const There there, AskThere(EntryName(entry), false));
    if (there == There::kWhole) return ++report_.kept, OkStatus();
    if (there == There::kInUse) return Leave(entry, "in use");
    const Status copied = Copy(entry, ReasonToCopy(there));
    if (!copied.ok() && IsDamage(copied.error())) return Leave(entry, "damaged", Words(copied));
    return copied;
  }

  static std::string Words(const Status& status) { return status.error().message(); }

  // With `held` the lock is ours, so nobody else works on the entry. Without options_.damaged a
  // finished entry counts as whole.
  Result<There> AskThere(const std::string& name, bool held) const {
    const Result<CacheEntry> there = ReadEntryOf(into_, name, moment_);
    if (!there.ok() && there.error().code() == Errc::kNotFound) return There::kNothing;
    if (!there.ok()) return there.error();
    if (there->state == EntryState::kLocked && !held) return There::kInUse;
    if (there->state != EntryState::kDone) return There::kUnfinished;
    if (!options_.damaged) return There::kWhole;
    NXDKIT_ASSIGN(const std::vector<EntryFault> faults, VerifyEntryOf(into_.kind, *there, Check()));
    return IsDamaged(faults) ? There::kDamaged : There::kWhole;
  }

  TreeCheckOptions Check() const { return {options_.poll, options_.check_blob}; }

  // An error that means damage is charged to the entry.
  Status Copy(const CacheEntry& entry, const char* reason) {
    const KeepAccessTime keep(PayloadPath(from_, entry));
    std::optional<FolderLock> reading;
    if (from_.kind == TreeKind::kXla) {
      NXDKIT_TRY(TryLock(entry.path, FolderLock::Mode::kShared).To(reading));
      if (!reading) return Leave(entry, "in use");
    }
    CacheEntry copy = entry;
    if (!options_.dry_run) {
      NXDKIT_TRY(AsideOf(into_, EntryName(entry)).To(copy.path));
      const Status made = CopyEntry(from_.kind, entry, copy.path);
      if (!made.ok()) return GiveUp(copy, made);
    }
    const Status whole = Verify(copy);
    if (!whole.ok()) return GiveUp(copy, whole);
    std::vector<std::string> binaries;
    const Status moved = MoveKernels(entry, copy, binaries);
    if (!moved.ok()) return GiveUp(copy, moved);
    report_.copied.push_back({EntryName(entry), reason, "", entry.bytes});
    report_.bytes += entry.bytes;
    if (options_.dry_run) return OkStatus();
    const std::string name = EntryName(entry);
    const std::string parent = ParentPath(JoinPath(into_.root, name));
    return batch_.Add(copy.path, entry.bytes, parent, [this, aside = copy.path, name, binaries] {
      const std::string lost = kernels_.LostOf(binaries);
      return lost.empty() ? Publish(aside, name) : TakeBack(aside, name, "differs", lost);
    });
  }

  Status GiveUp(const CacheEntry& copy, const Status& why) const {
    if (!options_.dry_run) NXDKIT_TRY(RemoveTree(copy.path));
    return why;
  }

  Status Verify(const CacheEntry& copy) const {
    NXDKIT_ASSIGN(std::vector<EntryFault> faults, VerifyEntryOf(from_.kind, copy, Check()));
    std::erase_if(faults, [](const EntryFault& f) { return f.severity != Severity::kDamage; });
    if (faults.empty()) return OkStatus();
    const EntryFault& first = faults[0];
    const std::string place = first.file.empty() ? "" : first.file + ": ";
    const std::string more =
        faults.size() == 1 ? "" : fmt::format(" (and {} more)", faults.size() - 1);
    return Error(Errc::kCorrupt, place + first.message + more);
  }

  // `binaries`: paths in INTO that the copy names.
  Status MoveKernels(const CacheEntry& entry, const CacheEntry& copy,
                     std::vector<std::string>& binaries) {
    if (from_.kind != TreeKind::kLite) return OkStatus();
    NXDKIT_ASSIGN(const std::optional<std::string> graph, GraphWithKernels(copy.path));
    if (!graph) return OkStatus();
    std::vector<std::string> missing;
    Result<MovedGraph> moved = kernels_.MoveGraph(*graph, missing);
    if (!moved.ok() && moved.error().code() == Errc::kUnsupported) {
      report_.unlinked.push_back({EntryName(entry), "not understood", moved.error().message(), 0});
      return OkStatus();
    }
    if (!moved.ok()) return std::move(moved).error();
    for (const std::string& binary : missing)
      report_.unlinked.push_back({EntryName(entry), "no binary", binary, 0});
    binaries = std::move(moved->binaries);
    if (!moved->text || options_.dry_run) return OkStatus();
    return ReplaceGraph(copy.path, *moved->text);
  }

  // Renames the synced copy, unless another process was faster. Trash is removed when the lock is
  // released.
  Status Publish(const std::string& aside, const std::string& name) {
    std::string trash;
    NXDKIT_TRY(PublishUnderLock(aside, name, trash));
    return trash.empty() ? OkStatus() : RemoveTree(trash);
  }

  Status PublishUnderLock(const std::string& aside, const std::string& name, std::string& trash) {
    const std::string target = JoinPath(into_.root, name);
    NXDKIT_TRY(MakeFolders(ParentPath(target)));
    NXDKIT_ASSIGN(const std::optional<EntryHold> hold, Hold(name));
    if (!hold) return TakeBack(aside, name, "in use");
    NXDKIT_ASSIGN(const bool published, PublishNew(aside, target));
    if (published) return OkStatus();
    // In a libneuronxla tree the entry's folder is locked, and it did not exist a moment ago.
    std::optional<EntryHold> folder;
    if (into_.kind == TreeKind::kXla && !hold->holds()) {
      NXDKIT_ASSIGN(std::optional<EntryHold> again, Hold(name));
      if (!again) return TakeBack(aside, name, "in use");
      folder.emplace(*std::move(again));
    }
    NXDKIT_ASSIGN(const There there, AskThere(name, true));
    if (there == There::kWhole) return TakeBack(aside, name, "");
    if (into_.kind == TreeKind::kNeff) return PublishOver(aside, target);
    if (there != There::kNothing) NXDKIT_TRY(MoveAway(into_, name).To(trash));
    NXDKIT_TRY(MakeFolders(ParentPath(target)));
    NXDKIT_ASSIGN(const bool now, PublishNew(aside, target));
    return now ? OkStatus() : TakeBack(aside, name, "");
  }

  Result<std::optional<EntryHold>> Hold(const std::string& name) const {
    return HoldEntry(into_, name, {moment_, options_.neff_tree_locks, false});
  }

  // Another process has made the entry, or begun to, since the check; or it has taken the name of a
  // binary.
  Status TakeBack(const std::string& aside, const std::string& name, const std::string& reason,
                  const std::string& message = "") {
    Withdraw(report_, name, reason, message);
    return RemoveTree(aside);
  }

  FoundTree from_;
  FoundTree into_;
  const MergeOptions& options_;
  TreeMoment moment_;
  Batch batch_;
  KernelMover kernels_;
  MergeReport report_;
};

// Both roots as absolute paths without links; for INTO as far as it exists.
Status Resolve(FoundTree& from, FoundTree& into) {
  NXDKIT_TRY(RealPath(from.root).To(from.root));
  NXDKIT_TRY(RealPath(into.root).To(into.root));
  const auto holds = [](const std::string& a, const std::string& b) {
    return a == b || b.starts_with(a + "/");
  };
  if (holds(from.root, into.root) || holds(into.root, from.root))
    return BadUsage("{} and {} are one tree, or one contains the other", from.root, into.root);
  NXDKIT_TRY(CheckNotMixed(from));
  NXDKIT_TRY(CheckNotMixed(into));
  if (from.is_empty) from.kind = into.kind;
  if (into.is_empty) into.kind = from.kind;
  if (into.kind != from.kind)
    return Unsupported("{} is a tree of {}, {} of {}", from.root, TreeName(from.kind), into.root,
                       TreeName(into.kind));
  return OkStatus();
}

}  // namespace

Result<MergeReport> MergeTree(const std::string& from, const std::string& into,
                              const MergeOptions& options) {
  NXDKIT_ASSIGN(const bool there, IsFolder(from));
  if (!there) return NotFound("there is no such folder").in(from);
  NXDKIT_ASSIGN(FoundTree source, FindTree(from));
  NXDKIT_ASSIGN(FoundTree target, FindTreeToWrite(into));
  NXDKIT_TRY(Resolve(source, target));
  if (!options.dry_run) NXDKIT_TRY(MakeFolders(target.root));
  return Merger(std::move(source), std::move(target), options).Run();
}

}  // namespace nxdkit::neff
