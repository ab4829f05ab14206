// Files as RAII descriptors, with positioned I/O; small files as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/system/descriptor.h"

namespace nxdkit {

// An open descriptor. Move-only. ReadAt and WriteAt are thread-safe.
class File {
 public:
  File() = default;

  // Regular files only: a FIFO, socket or directory is refused (kUnsupported) before it can block
  // or mislead.
  static Result<File> OpenRead(const std::string& path);
  // Creates (mode 0666 & ~umask), or opens an existing file without truncating it.
  static Result<File> OpenWrite(const std::string& path);
  // An unnamed file in the folder for temporary files; gone when closed.
  static Result<File> OpenTemporary();

  const std::string& path() const { return path_; }
  int fd() const { return fd_.fd(); }
  bool is_open() const { return fd_.is_open(); }
  uint64_t bytes() const { return bytes_; }  // size when it was opened for reading

  // Reads exactly to.size() bytes at `offset`; kCorrupt when the file ends before.
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const;
  Status WriteAt(uint64_t offset, std::span<const std::byte> from) const;
  // Reserves the space, so that parallel writers need not extend the file (1.5 to 2 times as fast),
  // and so that a full disk shows before the work, not after. Sets the size to `bytes`: shrinks a
  // longer file. On failure the size is unchanged.
  Status Allocate(uint64_t bytes) const;
  // Asks the kernel to start writing the bytes that Sync waits for; a hint that may be ignored.
  void StartSync() const;
  Status Sync() const;
  Status Measure();  // sets bytes() to the current size, after writing
  Status Close();

 private:
  friend class FolderLock;  // opens a folder as a File
  File(int fd, std::string path, uint64_t bytes);
  static Result<File> OpenRegular(const std::string& path, int flags);
  Descriptor fd_;
  std::string path_;
  uint64_t bytes_ = 0;
};

// A part of an open file, read as if it were a file: an archive inside another file. Offsets count
// from its start, those in errors from the start of the file. Does not own the file.
class FileView {
 public:
  FileView(const File& file) : file_(&file), bytes_(file.bytes()) {}  // NOLINT(explicit): all of it
  // The part must be inside the file.
  FileView(const File& file, uint64_t start, uint64_t bytes);

  const std::string& path() const { return file_->path(); }
  uint64_t start() const { return start_; }  // in the file
  uint64_t bytes() const { return bytes_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const;

 private:
  const File* file_;
  uint64_t start_ = 0;
  uint64_t bytes_;
};

// A whole small file (a config, an index, a marker); kCorrupt, not kLimit, if over `max_bytes`.
Result<std::string> ReadSmallFile(const std::string& path, uint64_t max_bytes);

// The first bytes of a file, up to `most`; "" if there is no regular file.
Result<std::string> ReadStart(const std::string& path, size_t most);
// The same for the last bytes.
Result<std::string> ReadEnd(const std::string& path, size_t most);

// Writes `contents` to path + ".tmp-<pid>", syncs, renames over `path`, syncs the folder.
Status WriteFileAtomic(const std::string& path, std::string_view contents);

}  // namespace nxdkit
