#include "lib/system/owner.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <sstream>

#include "lib/base/text.h"
#include "lib/system/look.h"

namespace nxdkit {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The 22nd field of /proc/PID/stat (proc(5)), counted from the end of the name in brackets, which
// may hold anything. nullopt: no such process.
std::optional<int64_t> StartOf(int64_t pid) {
  const std::string stat = FirstLine(fmt::format("/proc/{}/stat", pid));
  const size_t end = stat.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream words(stat.substr(end + 1));
  std::string word;
  for (int i = 3; i <= 22; ++i) words >> word;
  return ParseNumber<int64_t>(word);
}

// The same pid in two containers is two processes.
std::string Kernel() {
  struct stat names;
  const uint64_t space = ::stat("/proc/self/ns/pid", &names) == 0 ? names.st_ino : 0;
  return fmt::format("{}/{}", FirstLine("/proc/sys/kernel/random/boot_id"), space);
}

}  // namespace

std::string Owner::ToText() const { return fmt::format("{} {} {} {}\n", host, boot, pid, start); }

Owner ThisProcess() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host[0] = '-';
  const int64_t pid = ::getpid();
  return {host.data(), Kernel(), pid, StartOf(pid).value_or(0)};
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  NXDKIT_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);  // never fails so short
  return number;
}

std::optional<Owner> ParseOwner(std::string_view text) {
  std::istringstream words{std::string(text)};
  Owner owner;
  if (!(words >> owner.host >> owner.boot >> owner.pid >> owner.start)) return std::nullopt;
  return owner;
}

Alive AskAlive(const Owner& owner) {
  if (owner.boot != Kernel()) return Alive::kUnknown;
  const std::optional<int64_t> start = StartOf(owner.pid);
  return start && *start == owner.start ? Alive::kYes : Alive::kNo;
}

int64_t ChangedAt(const std::string& path) {
  const Result<PathInfo> info = LookAtLink(path);
  return info.ok() ? info->written_ns / 1'000'000'000 : std::time(nullptr);
}

bool MayLive(Alive alive, int64_t last_sign, int64_t now, int64_t patience) {
  return alive == Alive::kYes || (alive == Alive::kUnknown && last_sign + patience > now);
}

}  // namespace nxdkit
