#include "formats/rollout/weight_slots.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "formats/rollout/adoption.h"
#include "formats/rollout/foreign_files.h"
#include "formats/rollout/slot_names.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"

namespace nxdkit::rollout {
namespace {

namespace fs = std::filesystem;

constexpr char kLockName[] = ".weights.lock";
constexpr char kGivenUp[] = ".removed";  // new name of kHalfDone: its writer cannot publish
constexpr uint64_t kMaxMarkBytes = 4096;

// Seconds. An NFS client may follow the old link for a minute (acdirmax, nfs(5)), and then still
// has to load.
constexpr int64_t kKeepRetired = 120;
// A writer of another machine that has changed nothing for so long is considered dead. If it is
// alive, it can no longer publish.
constexpr int64_t kWriterIsDead = 30 * 60;
constexpr int64_t kWriterIsAlive = 60;

// A foreign folder may forbid the removal of its contents; here it is ours to remove.
void AllowRemoval(const std::string& path) {
  std::error_code ignored;
  fs::permissions(path, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow,
                  ignored);
  const Result<std::vector<TreeEntry>> entries = ListTree(path);
  if (!entries.ok()) return;  // RemoveSlot reports it
  for (const TreeEntry& entry : *entries)
    if (entry.kind == PathKind::kFolder)
      fs::permissions(JoinPath(path, entry.path), fs::perms::owner_all, fs::perm_options::add,
                      ignored);
}

Status RemoveSlot(const std::string& path) {
  if (RemoveTree(path).ok()) return OkStatus();
  AllowRemoval(path);
  return RemoveTree(path);
}

// Whether a program without a lock uses a file of the slot.
Result<bool> HasAFileInUse(const std::string& slot) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(slot));
  for (const std::string& name : names) {
    const std::string path = JoinPath(slot, name);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
    if (info.kind != PathKind::kFile) continue;
    NXDKIT_ASSIGN(const InUse in_use, AskInUse(path));
    if (in_use == InUse::kYes) return true;
  }
  return false;
}

// The writer of a slot that is not whole.
struct Writer {
  Owner owner;
  Alive alive = Alive::kUnknown;
  int64_t last_change = 0;
};
// nullopt: the slot is whole. A mark that cannot be read counts as an unknown writer's.
std::optional<Writer> WriterOf(const std::string& slot) {
  const Result<std::string> mark = ReadSmallFile(JoinPath(slot, kHalfDone), kMaxMarkBytes);
  if (!mark.ok() && mark.error().code() == Errc::kNotFound) return std::nullopt;
  Writer writer;
  const std::optional<Owner> owner = mark.ok() ? ParseOwner(*mark) : std::nullopt;
  if (owner) {
    writer.owner = *owner;
    writer.alive = AskAlive(*owner);
  }
  const Result<std::vector<std::string>> names = ListIfThere(slot);
  if (!names.ok()) writer.alive = Alive::kYes;  // assume so
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>())
    writer.last_change = std::max(writer.last_change, ChangedAt(JoinPath(slot, name)));
  return writer;
}

// Whether no process of this machine reads the slot, according to locks and leases.
bool IsUnused(const std::string& slot, FolderLock::State lock) {
  if (lock != FolderLock::State::kHeld) return false;
  const Result<bool> in_use = HasAFileInUse(slot);
  return in_use.ok() && !*in_use;
}

// For a file system that others have mounted too: whether the slot is old enough to remove. The
// process that renames the mark owns it: its writer, if still alive, finds it missing and ends.
bool IsForgotten(const std::string& slot, FolderLock::State lock, int64_t now) {
  if (lock == FolderLock::State::kBusy) return false;
  const std::optional<Writer> writer = WriterOf(slot);
  if (!writer) return ChangedAt(slot) + kKeepRetired <= now;
  if (MayLive(writer->alive, writer->last_change, now, kWriterIsDead)) return false;
  return ::rename(JoinPath(slot, kHalfDone).c_str(), JoinPath(slot, kGivenUp).c_str()) == 0;
}

// Removes what killed runs left: links with the names of slots, or meant to become `weights`.
void RemoveLinks(const std::string& parent) {
  const Result<std::vector<std::string>> names = ListFolder(parent);
  if (!names.ok()) return;
  for (const std::string& name : *names)
    if (name.starts_with(".weights.")) {
      const std::string path = JoinPath(parent, name);
      if (const Result<bool> link = IsLink(path); link.ok() && *link) ::unlink(path.c_str());
    }
}

std::vector<std::string> WithMark(std::vector<std::string> files) {
  files.push_back(kHalfDone);
  return files;
}

}  // namespace

Result<PinnedWeights> PinWeights(const std::string& weights) {
  constexpr int kAttempts = 1000;  // each needs another switch or removal in between
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    NXDKIT_ASSIGN(const std::string folder, Resolve(weights));
    Result<FolderLock> lock = FolderLock::Try(folder, FolderLock::Mode::kShared);
    NXDKIT_ASSIGN(const std::string now, Resolve(weights));
    // Decides only whether to try again.
    if (!lock.ok() && (KindForHint(now) == PathKind::kFolder || now != folder)) continue;
    if (!lock.ok()) return std::move(lock).error();
    // Busy: retired since the link was read, and now being overwritten.
    if (lock->state() == FolderLock::State::kBusy || !lock->IsAt(now)) continue;
    NXDKIT_ASSIGN(const bool half_done, IsThere(JoinPath(folder, kHalfDone)));
    return PinnedWeights{folder, half_done, std::make_shared<const FolderLock>(*std::move(lock))};
  }
  return Error(Errc::kIo, fmt::format("locked by a writer, or switched {} times", kAttempts))
      .in(weights);
}

Error HalfWritten(const std::string& folder) {
  return Corrupt("half written: a refresh of these weights was interrupted")
      .in(folder)
      .hint("refresh the bundle again (nxd-convert --into)");
}

std::string PlaceOf(const std::string& folder, const FolderLock& lock) {
  return SlotNumber(BaseName(folder)) ? folder : lock.HeldPath();
}

Result<bool> AreWeights(const std::string& folder) {
  NXDKIT_ASSIGN(const std::string real, RealPath(folder));
  const std::string name = BaseName(real);
  return name == kWeightsName || SlotNumber(name).has_value();
}

Status MakeFirstSlot(const std::string& weights) {
  NXDKIT_ASSIGN(const bool link, IsLink(weights));
  if (link) return OkStatus();
  NXDKIT_ASSIGN(const std::string slot, NewSlot(weights));
  if (::rename(weights.c_str(), slot.c_str()) != 0)
    return OutputError(fmt::format("rename it to {}", BaseName(slot)), errno).in(weights);
  return PointTo(weights, slot, false);
}

Result<std::unique_ptr<SlotUpdate>> SlotUpdate::Begin(const std::string& weights,
                                                      const Options& options) {
  std::unique_ptr<SlotUpdate> update(new SlotUpdate());
  update->weights_ = weights;
  update->parent_ = ParentPath(weights);
  update->options_ = options;
  NXDKIT_TRY(update->TakeWriterLock());
  // Without locks readers are unknown, as if they were on other machines.
  if (!update->writer_lock_is_ours_) update->options_.shared = true;
  NXDKIT_ASSIGN(std::string repaired, Repair(weights, options.sync));
  if (!repaired.empty()) update->notes_.push_back(std::move(repaired));
  NXDKIT_TRY(update->FindCurrent());
  const std::string from = update->current_.empty() ? weights : update->current_;
  NXDKIT_ASSIGN(const std::vector<std::string> foreign, ListForeign(from, WithMark(options.files)));
  if (update->current_.empty()) NXDKIT_TRY(update->AdoptPlainFolder());
  NXDKIT_TRY(update->Choose());
  NXDKIT_TRY(update->Mark());
  if (!update->writer_lock_is_ours_) NXDKIT_TRY(update->CheckNobodyWrites());
  NXDKIT_TRY(update->Clear());
  if (update->options_.shared) update->Tidy("");
  NXDKIT_TRY(CopyForeign(foreign, update->current_, update->path_, options.sync));
  return update;
}

Status SlotUpdate::CheckForeign(const std::string& weights, const Options& options) {
  const auto foreign = ListForeign(weights, WithMark(options.files));
  return foreign.ok() ? OkStatus() : Status(foreign.error());
}

SlotUpdate::~SlotUpdate() {
  if (!done_ && !reused_ && !path_.empty()) (void)RemoveSlot(path_).ok();
  if (writer_lock_is_ours_) (void)!::ftruncate(writer_lock_.fd(), 0);  // our pid
}

// The file stays: if it were removed, a third process could lock another file of the same name.
Status SlotUpdate::TakeWriterLock() {
  const std::string path = JoinPath(parent_, kLockName);
  NXDKIT_ASSIGN(writer_lock_, File::OpenWrite(path));
  while (::flock(writer_lock_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK && !LocksAreMissing(errno)) return SystemError("lock", errno).in(path);
    if (errno != EWOULDBLOCK) {
      notes_.push_back(
          "the file system has no locks here: when two refreshes of this bundle run at once, the "
          "last to end wins");
      return OkStatus();
    }
    const Result<std::string> holder = ReadSmallFile(path, 64);
    if (holder.ok() && !holder->empty())
      return Error(Errc::kIo,
                   fmt::format("another process is refreshing this bundle (pid {})", *holder))
          .in(parent_);
    return Error(Errc::kIo, "another process keeps refreshes away, to load the weights").in(path);
  }
  writer_lock_is_ours_ = true;
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(writer_lock_.fd(), 0) != 0) return OutputError("truncate", errno).in(path);
  return writer_lock_.WriteAt(0, std::as_bytes(std::span(pid.data(), pid.size())));
}

Status SlotUpdate::FindCurrent() {
  NXDKIT_ASSIGN(const std::string target, ReadLink(weights_));
  if (target.empty()) return OkStatus();
  if (!SlotNumber(target))
    return Unsupported(
               "is a link to {}, expected a folder or a link to a slot next to it (.weights.0)",
               target)
        .in(weights_);
  current_ = JoinPath(parent_, target);
  return OkStatus();
}

Status SlotUpdate::AdoptPlainFolder() {
  NXDKIT_ASSIGN(Adopted adopted, Adopt(weights_, options_.sync));
  current_ = std::move(adopted.slot);
  if (adopted.in_steps)
    notes_.push_back(
        "weights was a plain folder and is a link now; the file system cannot do that in one step: "
        "a program that opened it at that moment found it missing");
  return OkStatus();
}

Result<std::vector<std::string>> SlotUpdate::Retired() const {
  NXDKIT_ASSIGN(std::vector<std::string> slots, ListSlots(weights_));
  std::erase(slots, current_);
  return slots;
}

Status SlotUpdate::Choose() {
  if (options_.shared) return Make();
  NXDKIT_ASSIGN(const std::vector<std::string> retired, Retired());
  for (const std::string& slot : retired) {
    NXDKIT_ASSIGN(const bool taken, Take(slot));
    if (taken) return OkStatus();
  }
  return Make();
}

// False when readers hold it, or this is unknown.
Result<bool> SlotUpdate::Lock(const std::string& slot) {
  NXDKIT_ASSIGN(FolderLock lock, FolderLock::Try(slot, FolderLock::Mode::kExclusive));
  if (lock.state() != FolderLock::State::kHeld) return false;
  lock_ = std::move(lock);
  path_ = slot;
  return true;
}

// False when another process uses it, with or without a lock.
Result<bool> SlotUpdate::Take(const std::string& slot) {
  NXDKIT_ASSIGN(const bool locked, Lock(slot));
  if (!locked) return false;
  reused_ = true;  // from here on it is not ours to remove
  NXDKIT_ASSIGN(const bool in_use, HasAFileInUse(slot));
  if (in_use) lock_.reset();
  if (in_use) path_.clear();
  return !in_use;
}

// If two writers cannot see each other's locks, one makes this folder, the other the next.
Status SlotUpdate::Make() {
  constexpr int kAttempts = 100;
  reused_ = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NXDKIT_ASSIGN(const std::string slot, NewSlot(weights_));
    const int failure = ::mkdir(slot.c_str(), 0777) == 0 ? 0 : errno;
    if (failure == EEXIST) continue;
    if (failure != 0) return OutputError("create the folder", failure).in(slot);
    path_ = slot;
    NXDKIT_TRY(Lock(slot));
    return OkStatus();
  }
  return Error(Errc::kIo, "other processes keep making slots here").in(parent_);
}

// The mark is there before the first byte changes.
Status SlotUpdate::Mark() {
  const std::string mark = JoinPath(path_, kHalfDone);
  const std::string owner = ThisProcess().ToText();
  NXDKIT_ASSIGN(File file, File::OpenWrite(mark));
  NXDKIT_TRY(file.Allocate(owner.size()));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(owner.data(), owner.size()))));
  NXDKIT_TRY(file.Close());
  return options_.sync ? SyncFolder(path_) : OkStatus();
}

// Replaces a lock. When two begin at once, the one with the lower number goes on.
Status SlotUpdate::CheckNobodyWrites() const {
  const int64_t now = ChangedAt(JoinPath(path_, kHalfDone));
  NXDKIT_ASSIGN(const std::vector<std::string> slots, ListSlots(weights_));
  for (const std::string& slot : slots) {
    if (slot == path_) return OkStatus();  // by number: later ones are younger
    const std::optional<Writer> writer = WriterOf(slot);
    if (!writer || !MayLive(writer->alive, writer->last_change, now, kWriterIsAlive)) continue;
    return Error(Errc::kIo, fmt::format("another process is refreshing this bundle (pid {} on {})",
                                        writer->owner.pid, writer->owner.host))
        .in(parent_);
  }
  return OkStatus();
}

// Removes files that will not be overwritten, and files that also have a name elsewhere:
// overwriting them would change that one too.
Status SlotUpdate::Clear() const {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(path_));
  for (const std::string& name : names) {
    const std::string path = JoinPath(path_, name);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
    const bool plain = info.kind == PathKind::kFile && info.links == 1;
    const bool wanted = name == kHalfDone || std::ranges::count(options_.files, name) > 0;
    if (!plain || !wanted) NXDKIT_TRY(RemoveSlot(path));
  }
  return OkStatus();
}

Status SlotUpdate::Publish() {
  NXDKIT_CHECK(!done_);
  const std::string mark = JoinPath(path_, kHalfDone);
  if (options_.sync) NXDKIT_TRY(SyncFolder(path_));
  if (::unlink(mark.c_str()) != 0) return OutputError("remove the mark", errno).in(mark);
  if (options_.sync) NXDKIT_TRY(SyncFolder(path_));
  if (lock_) lock_->Release();  // after the switch, readers lock it
  const Status switched = PointTo(weights_, path_, options_.sync);
  // Also if only its sync failed: readers have the slot.
  done_ = switched.ok() || LeadsTo(weights_, path_);
  NXDKIT_TRY(switched);
  const std::string previous = std::exchange(current_, path_);
  // The time of retirement, by the clock of that file system.
  if (options_.shared) (void)!::utimensat(AT_FDCWD, previous.c_str(), nullptr, 0);
  Tidy(previous);
  return OkStatus();
}

// Removes retired versions that nobody holds, except `keep`, the next refresh's slot. The next run
// tries again to remove those that cannot be removed now.
void SlotUpdate::Tidy(const std::string& keep) const {
  const Result<std::vector<std::string>> retired = Retired();
  if (!retired.ok()) return;
  const int64_t now = ChangedAt(options_.shared && !done_ ? JoinPath(path_, kHalfDone) : weights_);
  for (const std::string& slot : *retired) {
    if (slot == path_ || slot == keep) continue;
    // Held until the slot is removed: a new reader finds it busy.
    const Result<FolderLock> lock = FolderLock::Try(slot, FolderLock::Mode::kExclusive);
    if (!lock.ok()) continue;
    if (options_.shared ? IsForgotten(slot, lock->state(), now) : IsUnused(slot, lock->state()))
      (void)RemoveSlot(slot).ok();
  }
  if (writer_lock_is_ours_) RemoveLinks(parent_);
}

}  // namespace nxdkit::rollout
