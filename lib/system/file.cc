#include "lib/system/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"
#include "lib/system/process.h"

namespace nxdkit {
namespace {

constexpr uint64_t kMaxOffset = std::numeric_limits<off_t>::max();

const char* KindText(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "of an unknown kind";
}

Error NotRegular(const std::string& path, mode_t mode) {
  return Unsupported("is {}, expected a regular file", KindText(mode)).in(path);
}

int OpenRetrying(const char* path, int flags, mode_t mode) {
  for (;;) {
    const int fd = ::open(path, flags | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

// The error of a failed open(): ENXIO for a socket and EISDIR for a folder opened for writing say
// less than what is there.
Error OpenError(const std::string& path, bool writing, int saved_errno) {
  struct stat info;
  if ((saved_errno == ENXIO || saved_errno == EISDIR) && ::stat(path.c_str(), &info) == 0)
    return NotRegular(path, info.st_mode);
  return writing ? OutputError("open for writing", saved_errno).in(path)
                 : SystemError("open", saved_errno).in(path);
}

uint64_t AvailableBytes(int fd) {
  struct statvfs info;
  if (::fstatvfs(fd, &info) != 0) return 0;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

// Returns 0 or an errno. fallocate, not posix_fallocate: on file systems that cannot reserve, glibc
// writes into every block instead, which costs more than it saves.
int Reserve(int fd, uint64_t bytes) {
  while (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS) return errno;
    return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  }
  return 0;
}

Status WriteNewFile(const std::string& path, std::string_view contents) {
  NXDKIT_ASSIGN(File file, File::OpenWrite(path));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(contents))));
  NXDKIT_TRY(file.Sync());
  return file.Close();
}

}  // namespace

File::File(int fd, std::string path, uint64_t bytes)
    : fd_(fd), path_(std::move(path)), bytes_(bytes) {}

Result<File> File::OpenRegular(const std::string& path, int flags) {
  // O_NONBLOCK: opening a FIFO that nobody writes to would hang before fstat can refuse it.
  const int fd = OpenRetrying(path.c_str(), flags | O_NONBLOCK, 0666);
  if (fd < 0) return OpenError(path, (flags & O_CREAT) != 0, errno);
  File file(fd, path, 0);
  struct stat info;
  if (::fstat(fd, &info) != 0) return SystemError("stat", errno).in(path);
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  if (::fcntl(fd, F_SETFL, 0) != 0) return SystemError("set up", errno).in(path);
  file.bytes_ = static_cast<uint64_t>(info.st_size);
  return file;
}

Result<File> File::OpenRead(const std::string& path) { return OpenRegular(path, O_RDONLY); }

Result<File> File::OpenWrite(const std::string& path) {
  return OpenRegular(path, O_RDWR | O_CREAT);
}

Result<File> File::OpenTemporary() {
  std::string folder = EnvironmentValue("TMPDIR");
  if (folder.empty()) folder = "/tmp";
  int fd = OpenRetrying(folder.c_str(), O_RDWR | O_TMPFILE | O_EXCL, 0600);
  if (fd >= 0) return File(fd, folder + "/(temporary file)", 0);
  // Not every file system has O_TMPFILE (overlayfs of older kernels, NFS).
  std::string name = JoinPath(folder, "nxdkit-XXXXXX");
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return OutputError("create a temporary file", errno).in(folder);
  ::unlink(name.c_str());
  return File(fd, folder + "/(temporary file)", 0);
}

Status File::ReadAt(uint64_t offset, std::span<std::byte> to) const {
  size_t done = 0;
  while (done < to.size()) {
    const uint64_t at = offset + done;
    const bool reachable = offset <= kMaxOffset && at <= kMaxOffset;
    const ssize_t n =
        reachable ? ::pread(fd(), to.data() + done, to.size() - done, static_cast<off_t>(at)) : 0;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return SystemError(fmt::format("read {} bytes", to.size()), errno).in(path_).at(offset);
    if (n == 0)
      return Corrupt("the file ends after {} of the {} bytes expected here", done, to.size())
          .in(path_)
          .at(offset);
    done += static_cast<size_t>(n);
  }
  return OkStatus();
}

Status File::Measure() {
  struct stat info;
  if (::fstat(fd(), &info) != 0) return SystemError("stat", errno).in(path_);
  bytes_ = static_cast<uint64_t>(info.st_size);
  return OkStatus();
}

FileView::FileView(const File& file, uint64_t start, uint64_t bytes)
    : file_(&file), start_(start), bytes_(bytes) {
  NXDKIT_CHECK(start <= file.bytes() && bytes <= file.bytes() - start);
}

Status FileView::ReadAt(uint64_t offset, std::span<std::byte> to) const {
  if (offset > bytes_ || to.size() > bytes_ - offset)
    return Corrupt("the file ends after {} of the {} bytes expected here",
                   offset > bytes_ ? 0 : bytes_ - offset, to.size())
        .in(path())
        .at(start_ + std::min(offset, bytes_));
  return file_->ReadAt(start_ + offset, to);
}

Status File::WriteAt(uint64_t offset, std::span<const std::byte> from) const {
  if (offset > kMaxOffset || from.size() > kMaxOffset - offset)
    return SystemError(fmt::format("write {} bytes", from.size()), EFBIG).in(path_).at(offset);
  size_t done = 0;
  while (done < from.size()) {
    const ssize_t n =
        ::pwrite(fd(), from.data() + done, from.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return SystemError(fmt::format("write {} bytes", from.size()), n < 0 ? errno : EIO)
          .in(path_)
          .at(offset + done);
    done += static_cast<size_t>(n);
  }
  return OkStatus();
}

Status File::Allocate(uint64_t bytes) const {
  struct stat info;
  if (::fstat(fd(), &info) != 0) return SystemError("stat", errno).in(path_);
  const off_t old_bytes = info.st_size;
  int failure = bytes > kMaxOffset ? EFBIG : 0;
  if (failure == 0 && static_cast<uint64_t>(old_bytes) > bytes &&
      ::ftruncate(fd(), static_cast<off_t>(bytes)) != 0)
    failure = errno;
  if (failure == 0 && bytes > 0) failure = Reserve(fd(), bytes);
  if (failure == 0) return OkStatus();

  // A reservation that failed half way has filled the disk: give it back, then count.
  if (static_cast<uint64_t>(old_bytes) <= bytes) (void)!::ftruncate(fd(), old_bytes);
  return SystemError(
             fmt::format("reserve {} bytes ({} bytes are available)", bytes, AvailableBytes(fd())),
             failure)
      .in(path_);
}

void File::StartSync() const { (void)!::sync_file_range(fd(), 0, 0, SYNC_FILE_RANGE_WRITE); }

Status File::Sync() const {
  while (::fsync(fd()) != 0)
    if (errno != EINTR) return SystemError("sync", errno).in(path_);
  return OkStatus();
}

Status File::Close() {
  const int fd = fd_.Release();
  // On Linux the descriptor is gone even after EINTR; closing it again could close another one.
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) return SystemError("close", errno).in(path_);
  return OkStatus();
}

Result<std::string> ReadSmallFile(const std::string& path, uint64_t max_bytes) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  if (file.bytes() > max_bytes)
    return Corrupt("file of {} bytes is over the limit of {}", file.bytes(), max_bytes).in(path);
  std::string contents(file.bytes(), '\0');
  NXDKIT_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(contents))));
  return contents;
}

namespace {

// Up to `most` bytes from the start, or from the end.
Result<std::string> ReadPart(const std::string& path, size_t most, bool at_end) {
  const Result<File> file = File::OpenRead(path);
  if (!file.ok()) {
    const Errc code = file.error().code();
    if (code == Errc::kNotFound || code == Errc::kUnsupported) return std::string();
    return file.error();
  }
  std::string part(std::min<uint64_t>(most, file->bytes()), '\0');
  const uint64_t begin = at_end ? file->bytes() - part.size() : 0;
  NXDKIT_TRY(file->ReadAt(begin, std::as_writable_bytes(std::span(part))));
  return part;
}

}  // namespace

Result<std::string> ReadStart(const std::string& path, size_t most) {
  return ReadPart(path, most, false);
}

Result<std::string> ReadEnd(const std::string& path, size_t most) {
  return ReadPart(path, most, true);
}

Status WriteFileAtomic(const std::string& path, std::string_view contents) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, RandomNumber());
  Status written = WriteNewFile(temporary, contents);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = OutputError(fmt::format("rename {} to it", temporary), errno).in(path);
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  return SyncFolder(ParentPath(path));
}

}  // namespace nxdkit
