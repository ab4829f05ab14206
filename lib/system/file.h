// Files as RAII descriptors, with positioned I/O; and outputs that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// An open descriptor. Move-only. ReadAt and WriteAt are thread-safe.
class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  // Regular files only: a FIFO, socket or directory is refused (kUnsupported) before it can block
  // or mislead.
  static Result<File> OpenRead(const std::string& path);
  // Creates (mode 0666 & ~umask), or opens an existing file without truncating it.
  static Result<File> OpenWrite(const std::string& path);
  // An unnamed file in the folder for temporary files; gone when closed.
  static Result<File> OpenTemporary();

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  uint64_t bytes() const { return bytes_; }  // size when it was opened for reading

  // Reads exactly to.size() bytes at `offset`; kCorrupt when the file ends before.
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const;
  Status WriteAt(uint64_t offset, std::span<const std::byte> from) const;
  // Reserves the space, so that parallel writers need not extend the file (1.5 to 2 times as fast),
  // and so that a full disk shows before the work, not after. Sets the size to `bytes`: shrinks a
  // longer file. On failure the size is as it was.
  Status Allocate(uint64_t bytes) const;
  // Has the kernel begin to write what Sync waits for; a wish that may be ignored.
  void StartSync() const;
  Status Sync() const;
  Status Close();

 private:
  friend class Staging;     // its lock is the descriptor of a folder
  friend class FolderLock;  // and so is this
  File(int fd, std::string path, uint64_t bytes);
  int fd_ = -1;
  std::string path_;
  uint64_t bytes_ = 0;
};

enum class PathKind { kMissing, kFile, kFolder, kOther };
PathKind KindOf(const std::string& path);  // follows symbolic links

// Whole small file (a config, an index, a marker); kLimit-free: kCorrupt when over `max_bytes`.
Result<std::string> ReadSmallFile(const std::string& path, uint64_t max_bytes);

// Writes `contents` to path + ".tmp-<pid>", syncs, renames over `path`, syncs the folder.
Status WriteFileAtomic(const std::string& path, std::string_view contents);

Status SyncFolder(const std::string& path);

// Direct children, sorted by name bytes; no "." and "..".
Result<std::vector<std::string>> ListFolder(const std::string& path);

std::string JoinPath(std::string_view folder, std::string_view name);
std::string BaseName(std::string_view path);    // "a/b/" -> "b"
std::string ParentPath(std::string_view path);  // "a/b/" -> "a"; "b" -> "."

// A folder (or file) built aside as "<output>.partial" and published under its own name by one
// rename. The staging place is locked (where the file system has locks): a second process that
// builds the same output fails with kIo. Dropped without Publish, the staging place is removed,
// unless Keep was called. Not thread-safe.
class Staging {
 public:
  struct Options {
    bool replace = false;  // an existing non-empty output may be replaced (--force)
    bool resume = false;   // keep what an interrupted run left in the staging place
    bool folder = true;    // a folder, else a single file inside a staging folder
    bool sync = true;      // folders and names are on the disk when Publish returns
  };
  // kUsage when `output` is there and may not be replaced, or can never be the target of a rename
  // (a mount point, "/"). Missing parent folders are created. A symbolic link is followed.
  static Result<Staging> Begin(const std::string& output, const Options& options);
  // What Begin would refuse of the output as it is now; changes nothing.
  static Status Check(const std::string& output, const Options& options);

  Staging(Staging&&) noexcept;
  Staging& operator=(Staging&&) = delete;
  Staging(const Staging&) = delete;
  ~Staging();

  // Where to build: a folder, or the path of the single file.
  const std::string& path() const { return build_path_; }
  bool resumed() const { return resumed_; }  // something was left there by an earlier run
  // Leaves the staging place as it is when this object goes, for --resume.
  void Keep() { keep_ = true; }
  // Syncs the folders (files are synced by who wrote them), and renames. With `replace` the old
  // output is exchanged in one step and then removed. Finished work is never thrown away: when the
  // rename fails, the staging place stays, and the hint names it.
  Status Publish();

 private:
  Staging() = default;
  Status Lock();
  Status CheckOutput() const;
  Status PublishFile();
  Status PublishFolder();
  Status Replace();

  std::string output_;
  std::string staging_;  // "<output>.partial"
  std::string build_path_;
  Options options_;
  bool resumed_ = false;
  bool keep_ = false;
  bool done_ = true;
  File lock_;
};

}  // namespace nxdkit
