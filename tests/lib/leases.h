// PRIVATE to tests. Leases, by which the kernel reports whether a file is open.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace nxdkit::testing_util {

// Whether this file's file system supports them. Asks the kernel, not the code under test: a skip
// must not hide its fault.
inline bool HasLeases(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool has = ::fcntl(fd, F_SETLEASE, F_WRLCK) == 0 || errno == EAGAIN;
  ::close(fd);
  return has;
}

}  // namespace nxdkit::testing_util
