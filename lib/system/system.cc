#include "lib/system/system.h"

#include <fmt/core.h>
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <fstream>

#include "lib/base/process_memory.h"
#include "lib/system/look.h"

namespace nxdkit {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
uint64_t RssBytes() { return 0; }  // most of it is the sanitizer's: ten times as much as ours
#else
uint64_t RssBytes() { return StatusBytes("VmRSS:"); }
#endif

void ReturnFreeMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

namespace {

// The first word of a file as a number; nullopt for "max" or none.
std::optional<uint64_t> NumberIn(const std::string& path) {
  uint64_t number = 0;
  std::ifstream file(path);
  return file >> number ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> MachineMemory(const std::string& root, std::string_view key) {
  std::ifstream file(root + "/proc/meminfo");
  uint64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == key && file >> kib) return kib * 1024;
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> MemoryLimitBytes(const std::string& root) {
  std::optional<uint64_t> least = MachineMemory(root, "MemTotal:");
  const auto lower = [&](std::optional<uint64_t> limit) {
    if (limit && (!least || *limit < *least)) least = limit;
  };
  // "0::/a/b" of version 2, "9:memory:/a/b" of version 1; a limit on /a applies to /a/b too.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string base = root + (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    const char* file = unified ? "/memory.max" : "/memory.limit_in_bytes";
    std::string path = line.substr(second + 1);
    while (true) {
      while (path.ends_with('/')) path.pop_back();
      lower(NumberIn(base + path + file));
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

std::optional<uint64_t> FreeMemoryBytes(const std::string& root) {
  const std::optional<uint64_t> limit = MemoryLimitBytes(root);
  const std::optional<uint64_t> available = MachineMemory(root, "MemAvailable:");
  return available && limit ? std::min(*available, *limit) : limit;
}

std::vector<int> AllowedProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return out;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) out.push_back(i);
  return out;
}

Result<std::string> FileStamp(const std::string& path) {
  NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
  if (info.kind == PathKind::kMissing) return std::string("-");
  return fmt::format("{} {} {}", info.written_ns, info.changed_ns, info.inode);
}

Result<bool> SamePath(const std::string& a, const std::string& b) {
  NXDKIT_ASSIGN(const PathInfo x, LookAt(a));
  NXDKIT_ASSIGN(const PathInfo y, LookAt(b));
  return x.kind != PathKind::kMissing && y.kind != PathKind::kMissing && x.device == y.device &&
         x.inode == y.inode;
}

}  // namespace nxdkit
