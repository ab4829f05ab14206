// The lock is an flock on the staging folder itself: it ends with the process, and leaves no file.
#include "lib/system/staging.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folder_lock.h"
#include "lib/system/folders.h"

namespace nxdkit {
namespace {

constexpr std::string_view kAside = ".old.";
constexpr std::string_view kPartial = ".partial";

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The name is unique to this process. The inode distinguishes machines that share a file system;
// the process id, processes that get the same inode again.
std::string AsideName(const std::string& output, uint64_t inode) {
  return fmt::format("{}{}{}-{}{}", output, kAside, ::getpid(), inode, kPartial);
}

Error NoStagingFolder(const std::string& staging) {
  return Error(Errc::kIo, "the output is built in this place, but it is not a folder")
      .in(staging)
      .hint("move it away");
}

Status SyncTree(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<TreeEntry> entries, ListTree(folder));
  for (const TreeEntry& entry : entries)
    if (entry.kind == PathKind::kFolder) NXDKIT_TRY(SyncFolder(JoinPath(folder, entry.path)));
  return SyncFolder(folder);
}

bool IsMountPoint(const std::string& path) {
  struct statx info;
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE, &info) != 0) return false;
  return (info.stx_attributes & info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
}

// The output's real place: without trailing slashes, symbolic links or a final "." or "..", because
// a rename replaces names, and needs the staging place on the same file system.
Result<std::string> ResolveOutput(const std::string& output) {
  if (output.empty()) return BadUsage("the output's name is empty");
  const std::string name = BaseName(output);
  const std::string path = name == "/" ? name : JoinPath(ParentPath(output), name);
  NXDKIT_ASSIGN(const bool link, IsLink(path));
  if (!link && name != "." && name != ".." && name != "/")
    return output.find('/') == std::string::npos ? name : path;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 && errno == ENOENT)
    return BadUsage("the output is a symbolic link to nothing").in(output);
  NXDKIT_ASSIGN(std::string real, RealPath(path));
  // Only the root is one character; comparing it as text is "uninitialised" to g++ 12.
  if (real.size() == 1) return BadUsage("the root folder cannot be an output").in(output);
  return real;
}

bool SameFile(int fd, const std::string& path) {
  struct stat open_info, path_info;
  return ::fstat(fd, &open_info) == 0 && ::lstat(path.c_str(), &path_info) == 0 &&
         open_info.st_dev == path_info.st_dev && open_info.st_ino == path_info.st_ino;
}

// Whether renameat2 failed because the kernel or the file system does not have the flag.
bool RenameFlagIsMissing(int failure) {
  return failure == EINVAL || failure == ENOSYS || failure == EOPNOTSUPP;
}

Error RenameError(const std::string& from, const std::string& to, int failure) {
  return OutputError(fmt::format("rename {} to it", from), failure).in(to);
}

uint64_t InodeOf(int fd) {
  struct stat info;
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// Opens and locks the file or folder; closed if somebody else has the lock, or there are no locks.
Descriptor TryLock(const std::string& path) {
  Descriptor lock(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (lock.is_open() && ::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) lock.Close();
  return lock;
}

// Removes old outputs that killed processes put aside: nobody holds a lock on them. Failure to
// remove one is ignored: the work is done.
void RemoveAsides(const std::string& output) {
  const Result<std::vector<std::string>> names = ListFolder(ParentPath(output));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (OutputOfAside(name) != BaseName(output)) continue;
    const std::string path = JoinPath(ParentPath(output), name);
    if (const Descriptor lock = TryLock(path); lock.is_open()) (void)RemoveTree(path).ok();
  }
}

// Swaps `fresh` and the output. Returns 0, or the reason, and then nothing has changed.
int Exchange(const std::string& fresh, const std::string& output) {
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, output.c_str(), RENAME_EXCHANGE) == 0)
    return 0;
  if (!RenameFlagIsMissing(errno)) return errno;
  // In steps, for file systems without exchange.
  const std::string third = AsideName(output, 0);
  if (::rename(output.c_str(), third.c_str()) != 0) return errno;
  if (::rename(fresh.c_str(), output.c_str()) != 0) {
    const int failure = errno;
    (void)!::rename(third.c_str(), output.c_str());
    return failure;
  }
  (void)!::rename(third.c_str(), fresh.c_str());
  return 0;
}

// Whether the staging place can be made, which Begin finds out by making it.
Status CheckPlace(const std::string& output) {
  const std::string staging = output + ".partial";
  NXDKIT_ASSIGN(const PathInfo there, LookAtLink(staging));
  if (there.kind != PathKind::kMissing && there.kind != PathKind::kFolder)
    return NoStagingFolder(staging);
  const std::string parent = NearestExisting(ParentPath(output));
  if (::access(parent.c_str(), W_OK | X_OK) != 0)
    return OutputError("write into the folder", errno).in(parent);
  // Kernel file systems take no files, whatever their permissions say.
  struct statfs system;
  if (::statfs(parent.c_str(), &system) == 0 &&
      (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC))
    return Error(Errc::kIo, "no files can be made in this folder").in(parent);
  return OkStatus();
}

}  // namespace

Error AsOutputFault(Error error) {
  if (error.code() != Errc::kCorrupt) return error;
  return Error(Errc::kUsage, error.message()).in(error.file()).hint(error.hint());
}

std::optional<std::string_view> OutputOfAside(std::string_view name) {
  if (!name.ends_with(kPartial)) return std::nullopt;
  name.remove_suffix(kPartial.size());
  const size_t at = name.rfind(kAside);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view owner = name.substr(at + kAside.size());
  const size_t dash = owner.find('-');
  if (dash == std::string_view::npos || !IsNumber(owner.substr(0, dash)) ||
      !IsNumber(owner.substr(dash + 1)))
    return std::nullopt;
  return name.substr(0, at);
}

Result<Staging> Staging::Begin(const std::string& output, const Options& options) {
  Staging staging;
  Result<std::string> resolved = ResolveOutput(output);
  if (!resolved.ok()) return AsOutputFault(std::move(resolved).error());
  staging.output_ = *std::move(resolved);
  staging.staging_ =
      staging.output_ + (options.mark.empty() ? "" : "." + options.mark) + ".partial";
  staging.options_ = options;
  NXDKIT_TRY(staging.CheckOutput());
  const std::string parent = ParentPath(staging.output_);
  NXDKIT_ASSIGN(const bool has_parent, IsThere(parent));
  if (options.parents && !has_parent) NXDKIT_TRY(MakeFolders(parent, options.sync));
  NXDKIT_TRY(staging.Lock());
  if (Status status = staging.Prepare(); !status.ok()) {
    ::rmdir(staging.staging_.c_str());  // unless it has the work of an earlier run
    return std::move(status).error();
  }
  staging.build_path_ =
      options.folder ? staging.staging_ : JoinPath(staging.staging_, BaseName(staging.output_));
  staging.done_ = false;
  return staging;
}

// With the lock held: the process that held it before may have published.
Status Staging::Prepare() {
  NXDKIT_TRY(CheckOutput());
  if (!options_.resume) NXDKIT_TRY(RemoveContents(staging_));
  NXDKIT_ASSIGN(const std::vector<std::string> left, ListFolder(staging_));
  resumed_ = !left.empty();
  return OkStatus();
}

Status Staging::Check(const std::string& output, const Options& options) {
  Staging staging;
  Result<std::string> resolved = ResolveOutput(output);
  if (!resolved.ok()) return AsOutputFault(std::move(resolved).error());
  staging.output_ = *std::move(resolved);
  staging.options_ = options;
  Status checked = staging.CheckOutput();
  if (checked.ok()) checked = CheckPlace(staging.output_);
  return checked.ok() ? checked : AsOutputFault(std::move(checked).error());
}

Staging& Staging::operator=(Staging&& other) noexcept {
  std::swap(output_, other.output_);
  std::swap(staging_, other.staging_);
  std::swap(build_path_, other.build_path_);
  std::swap(options_, other.options_);
  std::swap(resumed_, other.resumed_);
  std::swap(keep_, other.keep_);
  std::swap(done_, other.done_);
  std::swap(lock_, other.lock_);
  return *this;
}

Staging::~Staging() {
  // Removed before the lock is released: the next process finds either all of it, locked, or
  // nothing.
  if (!done_ && !keep_) (void)RemoveTree(staging_).ok();
}

Status Staging::Lock() {
  constexpr int kAttempts = 100;  // each needs another process to remove the folder in between
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const bool made = ::mkdir(staging_.c_str(), 0777) == 0;
    if (!made && errno != EEXIST)
      return OutputError("create the staging folder", errno).in(staging_);
    const auto fail = [&](const char* action, int failure) {
      if (made) ::rmdir(staging_.c_str());
      return OutputError(action, failure).in(staging_);
    };
    const int fd = ::open(staging_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) return NoStagingFolder(staging_);
    if (fd < 0) return fail("open the staging folder", errno);
    lock_ = Descriptor(fd);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK)
        return Error(Errc::kIo, "another process is building this output").in(staging_);
      if (errno == EINTR) continue;
      if (!LocksAreMissing(errno)) return fail("lock", errno);
    }
    if (SameFile(fd, staging_)) return OkStatus();
  }
  return Error(Errc::kIo, fmt::format("the staging folder disappeared {} times", kAttempts))
      .in(staging_);
}

Status Staging::CheckOutput() const {
  NXDKIT_ASSIGN(const PathKind kind, KindOf(output_));
  if (kind == PathKind::kMissing) return OkStatus();
  if (kind == PathKind::kOther)
    return BadUsage("the output exists and is neither a file nor a folder").in(output_);
  if (kind == PathKind::kFolder && !options_.folder)  // --force must not cost a whole folder
    return BadUsage("the output is a folder, expected the name of a file").in(output_);
  if (IsMountPoint(output_))
    return BadUsage("the output is a mount point, which a rename cannot replace")
        .in(output_)
        .hint("name a folder inside it");
  if (options_.replace) return OkStatus();
  if (kind == PathKind::kFile)
    return BadUsage("the output exists").in(output_).hint("--force replaces it");
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(output_));
  if (names.empty()) return OkStatus();
  return BadUsage("the output exists and is not empty ({}, {} first)",
                  Counted(names.size(), "entry"), names.front())
      .in(output_)
      .hint("--force replaces it");
}

Status Staging::Publish() {
  NXDKIT_CHECK(!done_);
  if (options_.folder && options_.sync) NXDKIT_TRY(SyncTree(staging_));
  Status published = options_.folder ? PublishFolder() : PublishFile();
  if (!done_) keep_ = true;
  if (done_ || published.ok()) return published;
  const Error& error = published.error();  // its own hint says less
  return Error(error.code(), error.message())
      .in(error.file())
      .hint(fmt::format("the finished output was left in {}", build_path_));
}

Status Staging::PublishFile() {
  const unsigned flags = options_.replace ? 0 : RENAME_NOREPLACE;
  int failure = 0;
  if (::renameat2(AT_FDCWD, build_path_.c_str(), AT_FDCWD, output_.c_str(), flags) != 0)
    failure = errno;
  if (flags != 0 && RenameFlagIsMissing(failure))
    failure = ::rename(build_path_.c_str(), output_.c_str()) == 0 ? 0 : errno;
  if (failure != 0) return RenameError(build_path_, output_, failure);
  done_ = true;
  Status synced = options_.sync ? SyncFolder(ParentPath(output_)) : OkStatus();
  Status removed = RemoveTree(staging_);
  return synced.ok() ? removed : synced;
}

Status Staging::PublishOnly(const std::string& name) {
  NXDKIT_CHECK(!done_ && options_.folder);
  build_path_ = JoinPath(staging_, name);
  return PublishFile();
}

Status Staging::PublishFolder() {
  NXDKIT_ASSIGN(const bool there, IsThere(output_));
  if (options_.replace && there) return Replace();
  // Succeeds over an empty folder, fails over a folder that was filled meanwhile.
  if (::rename(staging_.c_str(), output_.c_str()) != 0)
    return RenameError(staging_, output_, errno);
  done_ = true;
  return options_.sync ? SyncFolder(ParentPath(output_)) : OkStatus();
}

// The exchange goes through a third name: with the staging name, a crash right after it would leave
// the old output where --resume looks for unfinished work. From the first rename on the staging
// name is free, and a process that takes it may get here before this one is done; its clean-up then
// removes only what nobody has locked. Ours is locked from the beginning, and the old output, which
// takes its place, from now on.
Status Staging::Replace() {
  RemoveAsides(output_);
  const std::string aside = AsideName(output_, InodeOf(lock_.fd()));
  const Descriptor old = TryLock(output_);
  if (::rename(staging_.c_str(), aside.c_str()) != 0) return RenameError(staging_, aside, errno);
  if (const int failure = Exchange(aside, output_); failure != 0) {
    // Moved back, unless somebody has started in that place.
    if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, staging_.c_str(), RENAME_NOREPLACE) != 0)
      build_path_ = aside;
    return RenameError(build_path_, output_, failure);
  }
  done_ = true;
  lock_.Close();  // the new output is complete, and free for others
  if (Status synced = options_.sync ? SyncFolder(ParentPath(output_)) : OkStatus(); !synced.ok())
    // After a power cut the old output may have its name back.
    return Error(synced.error().code(), synced.error().message())
        .in(synced.error().file())
        .hint(fmt::format("the new output is in its place; the old one was left in {}", aside));
  return RemoveTree(aside);
}

}  // namespace nxdkit
