#include "lib/system.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace nxdkit {

uint64_t RssBytes() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/statm", "r"),
                                                   std::fclose);
  if (!file) return 0;
  unsigned long long all = 0;
  unsigned long long resident = 0;
  if (std::fscanf(file.get(), "%llu %llu", &all, &resident) != 2) return 0;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string FileStamp(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return "-";
  return fmt::format("{}.{:09} {}.{:09} {}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                     info.st_ctim.tv_sec, info.st_ctim.tv_nsec, info.st_ino);
}

bool SamePath(const std::string& a, const std::string& b) {
  struct stat x;
  struct stat y;
  return ::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

}  // namespace nxdkit
