#include "formats/rollout/weight_slots.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "formats/rollout/foreign_files.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::rollout {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeightsName = "weights";
constexpr std::string_view kSlotPrefix = ".weights.";
constexpr char kLockName[] = ".weights.lock";
constexpr char kNextName[] = ".weights.next";  // the link that becomes `weights`
constexpr char kHalfDone[] = ".incomplete";    // in a slot: not a whole version

bool IsSlotName(std::string_view name) {
  if (!name.starts_with(kSlotPrefix)) return false;
  name.remove_prefix(kSlotPrefix.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && std::to_string(number) == name;
}

bool IsLink(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

Result<std::string> ReadLink(const std::string& path) {
  std::error_code failure;
  std::string target = fs::read_symlink(path, failure).string();
  if (failure) return SystemError("read the link", failure.value()).in(path);
  return target;
}

// Where `weights` leads: a path that no rename of the link changes.
Result<std::string> Resolve(const std::string& weights) {
  if (!IsLink(weights)) return weights;
  const Result<std::string> target = ReadLink(weights);
  if (!target.ok()) return target.error();
  return target->starts_with('/') ? *target : JoinPath(ParentPath(weights), *target);
}

// A foreign folder may forbid to remove what is in it; here it is ours to remove.
void AllowRemoval(const std::string& path) {
  std::error_code ignored;
  fs::permissions(path, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow,
                  ignored);
  fs::recursive_directory_iterator entry(path, ignored);
  for (; !ignored && entry != fs::recursive_directory_iterator(); entry.increment(ignored))
    if (entry->symlink_status(ignored).type() == fs::file_type::directory)
      fs::permissions(entry->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
}

Status RemoveSlot(const std::string& path) {
  if (RemoveTree(path).ok()) return OkStatus();
  AllowRemoval(path);
  return RemoveTree(path);
}

Status RenameAt(const std::string& from, const std::string& to, unsigned flags = 0) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) return OkStatus();
  const bool missing = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
  if (flags != 0 && missing)
    return Unsupported(
               "the file system cannot exchange a folder and a link in one step, so this plain "
               "folder cannot become a slot while engines read it")
        .in(to)
        .hint("while no engine reads: mv weights .weights.0 && ln -s .weights.0 weights");
  return OutputError(fmt::format("rename {} to it", from), errno).in(to);
}

Error NoLocks(const std::string& path) {
  return Unsupported(
             "the file system has no locks (flock) here: readers of an old version cannot be told, "
             "nor another writer")
      .in(path)
      .hint("write a whole bundle with --bundle and --force instead");
}

// By somebody who takes no lock.
Result<bool> HasAFileInUse(const std::string& slot) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(slot));
  for (const std::string& name : names) {
    const std::string path = JoinPath(slot, name);
    if (IsLink(path) || KindOf(path) != PathKind::kFile) continue;
    NXDKIT_ASSIGN(const InUse in_use, AskInUse(path));
    if (in_use == InUse::kYes) return true;
  }
  return false;
}

std::vector<std::string> WithMark(std::vector<std::string> files) {
  files.push_back(kHalfDone);
  return files;
}

}  // namespace

Result<PinnedWeights> PinWeights(const std::string& weights) {
  constexpr int kAttempts = 1000;  // each needs another switch, or removal, in between
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NXDKIT_ASSIGN(const std::string folder, Resolve(weights));
    Result<FolderLock> lock = FolderLock::Try(folder, FolderLock::Mode::kShared);
    if (!lock.ok() && KindOf(weights) == PathKind::kFolder) continue;
    if (!lock.ok()) return std::move(lock).error();
    // Busy: retired since the link was read, and being overwritten.
    if (lock->state() == FolderLock::State::kBusy || !lock->IsAt(weights)) continue;
    const bool half_done = KindOf(JoinPath(folder, kHalfDone)) != PathKind::kMissing;
    return PinnedWeights{folder, half_done, std::make_shared<const FolderLock>(*std::move(lock))};
  }
  return Error(Errc::kIo, fmt::format("locked by a writer, or switched {} times", kAttempts))
      .in(weights);
}

Error HalfWritten(const std::string& folder) {
  return Corrupt("half written: a refresh of these weights was cut short")
      .in(folder)
      .hint("refresh the bundle again (nxd-convert --into)");
}

std::string PlaceOf(const std::string& folder, const FolderLock& lock) {
  return IsSlotName(BaseName(folder)) ? folder : lock.HeldPath();
}

bool AreWeights(const std::string& folder) {
  std::error_code failure;
  const std::string name = fs::canonical(folder, failure).filename().string();
  return !failure && (name == kWeightsName || IsSlotName(name));
}

Result<std::unique_ptr<SlotUpdate>> SlotUpdate::Begin(const std::string& weights,
                                                      const Options& options) {
  std::unique_ptr<SlotUpdate> update(new SlotUpdate());
  update->weights_ = weights;
  update->parent_ = ParentPath(weights);
  update->options_ = options;
  NXDKIT_TRY(update->TakeWriterLock());
  NXDKIT_TRY(update->FindCurrent());
  NXDKIT_TRY(update->Recover());
  const std::string from = update->current_.empty() ? weights : update->current_;
  NXDKIT_ASSIGN(const std::vector<std::string> foreign, ListForeign(from, WithMark(options.files)));
  NXDKIT_TRY(update->Choose());
  NXDKIT_TRY(update->Mark());
  NXDKIT_TRY(update->Clear());
  NXDKIT_TRY(CopyForeign(foreign, from, update->path_, options.sync));
  return update;
}

Status SlotUpdate::CheckForeign(const std::string& weights, const Options& options) {
  const auto foreign = ListForeign(weights, WithMark(options.files));
  return foreign.ok() ? OkStatus() : Status(foreign.error());
}

SlotUpdate::~SlotUpdate() {
  if (!done_ && !reused_ && lock_) (void)RemoveSlot(path_).ok();
  if (writer_lock_is_ours_) (void)!::ftruncate(writer_lock_.fd(), 0);  // our pid
}

// The file stays: to remove it would let a third process lock another file of the same name.
Status SlotUpdate::TakeWriterLock() {
  const std::string path = JoinPath(parent_, kLockName);
  NXDKIT_ASSIGN(writer_lock_, File::OpenWrite(path));
  while (::flock(writer_lock_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return NoLocks(path);
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
  if (!IsLink(weights_)) return OkStatus();
  NXDKIT_ASSIGN(const std::string target, ReadLink(weights_));
  if (!IsSlotName(target))
    return Unsupported(
               "is a link to {}, expected a folder or a link to a slot next to it (.weights.0)",
               target)
        .in(weights_);
  current_ = JoinPath(parent_, target);
  return OkStatus();
}

// What a run that was killed right before or right after the switch left: the link that did not
// become `weights`, or the plain folder that was `weights` until then, now the first retired slot.
Status SlotUpdate::Recover() const {
  const std::string next = JoinPath(parent_, kNextName);
  if (IsLink(next) || KindOf(next) == PathKind::kFile) return RemoveSlot(next);
  return KindOf(next) == PathKind::kMissing ? OkStatus() : RenameAt(next, FreeName());
}

Result<std::vector<std::string>> SlotUpdate::Retired() const {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(parent_));
  std::vector<std::string> slots;
  for (const std::string& name : names) {
    const std::string path = JoinPath(parent_, name);
    if (IsSlotName(name) && path != current_ && !IsLink(path) && KindOf(path) == PathKind::kFolder)
      slots.push_back(path);
  }
  return slots;
}

std::string SlotUpdate::FreeName() const {
  for (uint32_t i = 0;; ++i) {
    std::string path = JoinPath(parent_, fmt::format("{}{}", kSlotPrefix, i));
    if (KindOf(path) == PathKind::kMissing && !IsLink(path)) return path;
  }
}

Status SlotUpdate::Choose() {
  NXDKIT_ASSIGN(const std::vector<std::string> retired, Retired());
  for (const std::string& slot : retired) {
    NXDKIT_ASSIGN(const bool taken, Take(slot));
    if (taken) return OkStatus();
  }
  return Make();
}

// False when readers hold it.
Result<bool> SlotUpdate::Lock(const std::string& slot) {
  NXDKIT_ASSIGN(FolderLock lock, FolderLock::Try(slot, FolderLock::Mode::kExclusive));
  if (lock.state() == FolderLock::State::kUnsupported) return NoLocks(slot);
  if (lock.state() == FolderLock::State::kBusy) return false;
  lock_ = std::move(lock);
  path_ = slot;
  return true;
}

// False when somebody uses it, with or without a lock.
Result<bool> SlotUpdate::Take(const std::string& slot) {
  NXDKIT_ASSIGN(const bool locked, Lock(slot));
  if (!locked) return false;
  reused_ = true;  // whatever comes now, it is not ours to remove
  NXDKIT_ASSIGN(const bool in_use, HasAFileInUse(slot));
  if (in_use) lock_.reset();
  return !in_use;
}

Status SlotUpdate::Make() {
  const std::string slot = FreeName();
  if (::mkdir(slot.c_str(), 0777) != 0) return OutputError("create the folder", errno).in(slot);
  reused_ = false;
  NXDKIT_ASSIGN(const bool locked, Lock(slot));
  if (locked) return OkStatus();
  return Error(Errc::kIo, "another process locked the new slot").in(slot);
}

// It is there before the first byte changes.
Status SlotUpdate::Mark() {
  const std::string mark = JoinPath(path_, kHalfDone);
  NXDKIT_ASSIGN(File file, File::OpenWrite(mark));
  NXDKIT_TRY(file.Close());
  return options_.sync ? SyncFolder(path_) : OkStatus();
}

// What will not be overwritten goes, and so do files that have a second name elsewhere: overwriting
// them would change that one too.
Status SlotUpdate::Clear() const {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(path_));
  for (const std::string& name : names) {
    const std::string path = JoinPath(path_, name);
    struct stat info;
    const bool plain =
        ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1;
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
  lock_->Release();  // from the switch on, readers lock it
  NXDKIT_TRY(Switch());
  if (options_.sync) NXDKIT_TRY(SyncFolder(parent_));
  Tidy();
  return OkStatus();
}

Status SlotUpdate::Switch() {
  const std::string next = JoinPath(parent_, kNextName);
  if (::symlink(BaseName(path_).c_str(), next.c_str()) != 0)
    return OutputError("create the link", errno).in(next);
  Status switched = RenameAt(next, weights_, current_.empty() ? RENAME_EXCHANGE : 0);
  done_ = switched.ok();
  if (!done_) {
    ::unlink(next.c_str());
    return switched;
  }
  if (!current_.empty()) return OkStatus();
  current_ = FreeName();  // the plain folder that was exchanged is the first retired slot
  return RenameAt(next, current_);
}

// The version before is kept as the next refresh's slot; older ones go when nobody holds them. What
// cannot be removed now is tried again by the next run.
void SlotUpdate::Tidy() const {
  Result<std::vector<std::string>> retired = Retired();
  if (!retired.ok()) return;
  for (const std::string& slot : *retired) {
    if (slot == path_ || slot == current_) continue;
    const Result<FolderLock> lock = FolderLock::Try(slot, FolderLock::Mode::kExclusive);
    if (!lock.ok() || lock->state() != FolderLock::State::kHeld) continue;
    const Result<bool> in_use = HasAFileInUse(slot);
    if (in_use.ok() && !*in_use) (void)RemoveSlot(slot).ok();
  }
}

}  // namespace nxdkit::rollout
