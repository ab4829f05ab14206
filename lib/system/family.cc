#include "lib/system/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "lib/base/text.h"
#include "lib/system/descriptor.h"
#include "lib/system/owner.h"

namespace nxdkit {
namespace {

constexpr size_t kMaxProcBytes = size_t{4} << 20;  // an environment is at most some 2 MB

// A file of /proc, as far as it could be read.
std::string ProcFile(pid_t pid, const char* name) {
  const Descriptor file(
      ::open(fmt::format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char block[1 << 13];
  while (file.is_open() && text.size() < kMaxProcBytes) {
    const ssize_t got = ::read(file.fd(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(block, static_cast<size_t>(got));
  }
  return text;
}

struct ProcState {
  char state = 0;
  pid_t parent = 0;
  uint64_t start = 0;  // clock ticks since the system started
};

// A field by number, from the text behind the name, which is field 2.
std::string_view FieldOf(std::string_view behind_name, int number) {
  for (int field = 3; field < number; ++field)
    behind_name.remove_prefix(std::min(behind_name.find(' '), behind_name.size() - 1) + 1);
  return behind_name.substr(0, behind_name.find(' '));
}

// "PID (NAME) STATE PARENT ..." (proc(5)); the name may hold anything.
std::optional<ProcState> StateOf(pid_t pid) {
  const std::string stat = ProcFile(pid, "stat");
  const size_t end = stat.rfind(") ");
  if (end == std::string::npos || end + 4 >= stat.size()) return std::nullopt;
  const std::string_view rest = std::string_view(stat).substr(end + 2);
  const std::optional<pid_t> parent = ParseNumber<pid_t>(FieldOf(rest, 4));
  const std::optional<uint64_t> start = ParseNumber<uint64_t>(FieldOf(rest, 22));
  if (!parent || !start) return std::nullopt;
  return ProcState{rest.front(), *parent, *start};
}

std::map<pid_t, ProcState> AllProcesses() {
  std::map<pid_t, ProcState> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (folder == nullptr) return out;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::optional<pid_t> pid = ParseNumber<pid_t>(entry->d_name);
    if (!pid) continue;
    if (const std::optional<ProcState> state = StateOf(*pid)) out.emplace(*pid, *state);
  }
  return out;
}

bool HasEntry(std::string_view environment, std::string_view entry) {
  const size_t at = environment.find(entry);
  return at != std::string_view::npos && (at == 0 || environment[at - 1] == '\0');
}

}  // namespace

std::string NewFamilyMark() { return fmt::format("NXDKIT_FAMILY_{:016x}=1", RandomNumber()); }

std::vector<pid_t> RunningFamily(pid_t first, std::string_view mark) {
  const std::map<pid_t, ProcState> all = AllProcesses();
  std::set<pid_t> family = {first};
  // Older processes are not read: looking into one that hangs in the kernel may hang too.
  const auto began = all.find(first);
  const uint64_t start = began == all.end() ? 0 : began->second.start;
  for (const auto& [pid, state] : all)
    if (state.start >= start && HasEntry(ProcFile(pid, "environ"), mark)) family.insert(pid);
  // A parent may have a higher number than its child: repeat until nothing is added.
  for (size_t before = 0; before != family.size();) {
    before = family.size();
    for (const auto& [pid, state] : all)
      if (family.contains(state.parent)) family.insert(pid);
  }
  std::vector<pid_t> out;
  for (const pid_t pid : family) {
    const auto found = all.find(pid);
    if (found == all.end() || pid == ::getpid()) continue;
    if (found->second.state != 'Z' && found->second.state != 'X') out.push_back(pid);
  }
  return out;
}

}  // namespace nxdkit
