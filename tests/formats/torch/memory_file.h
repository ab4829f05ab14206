// A file in memory with a path: rewriting one on a disk 100,000 times would wait for the disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace nxdkit::torch {

class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("archive", MFD_CLOEXEC)) {
    if (fd_ < 0) std::abort();
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  void Replace(std::string_view contents) const {
    if (ftruncate(fd_, 0) != 0 ||
        pwrite(fd_, contents.data(), contents.size(), 0) != static_cast<ssize_t>(contents.size()))
      std::abort();
  }

 private:
  int fd_;
};

}  // namespace nxdkit::torch
