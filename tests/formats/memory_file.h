// A file in memory that can be opened by name: for thousands of damaged copies, and for fuzzers.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace nxdkit::testing_util {

class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("nxdkit-test", MFD_CLOEXEC)) {
    if (fd_ < 0) std::abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  void Set(std::string_view bytes) {
    Truncate(bytes.size());
    Write(0, bytes);
  }
  void Write(size_t offset, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written <= 0) std::abort();
      bytes.remove_prefix(static_cast<size_t>(written));
      offset += static_cast<size_t>(written);
    }
  }
  void Truncate(size_t bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) std::abort();
  }

 private:
  int fd_;
};

}  // namespace nxdkit::testing_util
