#include "formats/compile_cache/discard.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_owner.h"
#include "formats/compile_cache/neff_tree.h"
#include "formats/compile_cache/publish.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr int kMostTries = 3;  // each needs another process to remove the file in between

bool IsFileAt(const Descriptor& fd, const std::string& path) {
  struct stat held;
  const Result<PathInfo> there = LookAtLink(path);
  return ::fstat(fd.fd(), &held) == 0 && there.ok() && held.st_dev == there->device &&
         held.st_ino == there->inode;
}

// A flock on a file, as the vendor's libraries hold it; nullopt when another has it. On a file
// system without locks it is granted.
Result<std::optional<EntryHold>> HoldFile(const std::string& path, bool ask_only) {
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (ask_only && there && IsHeld(path)) return std::optional<EntryHold>();
  if (ask_only) return std::optional<EntryHold>(EntryHold());
  for (int i = 0; i < kMostTries; ++i) {
    Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!fd.is_open()) return OutputError("open the lock", errno).in(path);
    const bool locked = ::flock(fd.fd(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) return std::optional<EntryHold>();
    if (!locked && !LocksAreMissing(errno)) return OutputError("lock it", errno).in(path);
    if (IsFileAt(fd, path))
      return std::optional<EntryHold>(EntryHold(std::move(fd), there ? "" : path));
  }
  return std::optional<EntryHold>();
}

Result<std::optional<EntryHold>> HoldLiteEntry(const std::string& root, const std::string& key,
                                               const HoldOptions& options) {
  NXDKIT_ASSIGN(const OwnerState owner, AskOwner(root, key, options.moment));
  if (owner == OwnerState::kAlive) return std::optional<EntryHold>();
  NXDKIT_ASSIGN(std::optional<EntryHold> hold,
                HoldFile(JoinPath(root, OwnerLockName(key)), options.ask_only));
  if (hold && hold->holds()) hold->TellOwner(root, key);
  return hold;
}

Result<std::optional<EntryHold>> HoldFolder(const std::string& path) {
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) return std::optional<EntryHold>(EntryHold());
  NXDKIT_ASSIGN(std::optional<FolderLock> lock, TryLock(path, FolderLock::Mode::kExclusive));
  if (!lock || AnyLockHeld(path)) return std::optional<EntryHold>();
  return std::optional<EntryHold>(EntryHold(*std::move(lock)));
}

Status RenameTo(const std::string& path, const std::string& target) {
  if (::rename(path.c_str(), target.c_str()) != 0) return OutputError("remove", errno).in(path);
  return OkStatus();
}

// Moves the entry into a new trash folder in the root.
Result<std::string> MoveFromCache(const std::string& root, const std::string& path) {
  std::string trash = JoinPath(root, std::string(kTrashPrefix) + "XXXXXX");
  if (::mkdtemp(trash.data()) == nullptr) return OutputError("make a folder", errno).in(trash);
  const Status renamed = RenameTo(path, JoinPath(trash, BaseName(path)));
  if (!renamed.ok()) {
    ::rmdir(trash.c_str());
    return renamed.error();
  }
  ::rmdir(ParentPath(path).c_str());  // the compiler's folder, when this was its last entry
  return trash;
}

}  // namespace

EntryHold::~EntryHold() {
  if (!owner_.empty()) ::unlink(owner_.c_str());
  if (made_.empty()) return;
  file_.Close();
  // Kept if somebody has opened it meanwhile: a process that waits for this lock would hold a file
  // that nobody else finds.
  const Result<InUse> in_use = AskInUse(made_);
  if (in_use.ok() && *in_use == InUse::kNo) ::unlink(made_.c_str());
}

void EntryHold::TellOwner(const std::string& root, const std::string& key) {
  const std::string aside = JoinPath(root, AsideName(key));
  owner_ = JoinPath(root, OwnerFileName(key));
  const bool told =
      WriteAside(aside, OwnerTextOfThisProcess()).ok() && PublishOver(aside, owner_).ok();
  if (!told) (void)RemoveTree(aside).ok();
}

Result<std::optional<EntryHold>> HoldKernel(const std::string& path, bool ask_only) {
  return HoldFile(KernelLockPath(path), ask_only);
}

Result<std::optional<EntryHold>> HoldLockFile(const std::string& path) {
  return HoldFile(path, false);
}

Status RemoveIdleLock(const std::string& path) {
  Descriptor fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.is_open() && errno == ENOENT) return OkStatus();
  if (!fd.is_open()) return OutputError("open the lock", errno).in(path);
  if (::flock(fd.fd(), LOCK_EX | LOCK_NB) != 0 || !IsFileAt(fd, path)) return OkStatus();
  const EntryHold goes(std::move(fd), path);
  return OkStatus();
}

Result<std::optional<EntryHold>> HoldEntry(const FoundTree& tree, const std::string& name,
                                           const HoldOptions& options) {
  if (tree.kind == TreeKind::kXla) return HoldFolder(JoinPath(tree.root, name));
  if (tree.kind == TreeKind::kLite) return HoldLiteEntry(tree.root, name, options);
  const std::string& locks = options.neff_tree_locks;
  NXDKIT_ASSIGN(const bool there, locks.empty() ? Result<bool>(false) : IsFolder(locks));
  if (!there) return std::optional<EntryHold>(EntryHold());
  return HoldFile(JoinPath(locks, NeffTreeKey(name) + ".lock"), options.ask_only);
}

Result<std::string> MoveAway(const FoundTree& tree, const std::string& name) {
  const std::string path = JoinPath(tree.root, name);
  if (tree.kind == TreeKind::kXla) return MoveFromCache(tree.root, path);
  if (tree.kind == TreeKind::kNeff) {
    // Its folders stay: their maker may be about to write into them.
    NXDKIT_TRY(RemoveTree(path));
    return std::string();
  }
  std::string trash = JoinPath(tree.root, TrashName(name));
  NXDKIT_TRY(RemoveTree(trash));  // left by a killed process with our pid
  NXDKIT_TRY(RenameTo(path, trash));
  return trash;
}

Status DiscardFromCache(const std::string& root, const std::string& path) {
  NXDKIT_ASSIGN(const std::string trash, MoveFromCache(root, path));
  return RemoveTree(trash);
}

}  // namespace nxdkit::neff
