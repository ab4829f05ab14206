#include "formats/compile_cache/leftovers.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "formats/compile_cache/entry_files.h"
#include "lib/base/text.h"
#include "lib/system/folder_lock.h"
#include "lib/system/look.h"
#include "lib/system/mount.h"
#include "lib/system/owner.h"
#include "lib/system/paths.h"
#include "lib/system/process_facts.h"

namespace nxdkit::neff {
namespace {

constexpr char kBehindHost = '~';  // cannot occur in a host name
constexpr size_t kDigitsBehindHost = 8;

// Parses what follows the marks: "<pid>" or "<host>.<pid>".
bool ParseMaker(std::string_view text, Leftover& leftover) {
  const size_t dot = text.rfind('.');
  const std::string_view pid = dot == std::string_view::npos ? text : text.substr(dot + 1);
  const std::optional<int64_t> number = ParseNumber<int64_t>(pid);
  if (!number || *number <= 0 || dot == 0) return false;
  leftover.pid = *number;
  if (dot != std::string_view::npos) leftover.host = text.substr(0, dot);
  return true;
}

}  // namespace

std::optional<Leftover> ParseLeftover(std::string_view name) {
  for (const std::string_view what : {"tmp", "trash", "capture"}) {
    const std::string mark = fmt::format(".{}.", what);
    const size_t at = name.find(mark);
    if (at == std::string_view::npos || at == 0) continue;
    Leftover leftover{std::string(name.substr(0, at)), std::string(what), "", 0};
    if (ParseMaker(name.substr(at + mark.size()), leftover)) return leftover;
  }
  return std::nullopt;
}

bool IsOurs(const Leftover& leftover) {
  const size_t mark = leftover.host.rfind(kBehindHost);
  if (leftover.what != "tmp" || mark == std::string::npos) return false;
  const std::string_view digits = std::string_view(leftover.host).substr(mark + 1);
  return digits.size() == kDigitsBehindHost && IsLowerHex(digits);
}

std::string AsideName(std::string_view of) {
  // Containers of one machine may share its name, and have processes with the same pid.
  return fmt::format("{}.tmp.{}{}{:08x}.{}", of, HostName(), kBehindHost,
                     static_cast<uint32_t>(RandomNumber()), ::getpid());
}

std::string TrashName(std::string_view of) { return fmt::format("{}.trash.{}", of, ::getpid()); }

TreeMoment MomentOf(const std::string& root, int64_t now_ns) {
  using std::chrono::system_clock;
  const int64_t clock = std::chrono::nanoseconds(system_clock::now().time_since_epoch()).count();
  return {now_ns != 0 ? now_ns : clock, IsShared(MountOf(root))};
}

Result<int64_t> LastChange(const std::string& path) {
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  int64_t last = info.written_ns;
  if (info.kind != PathKind::kFolder) return last;
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(path));
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(const PathInfo each, LookAtLink(JoinPath(path, name)));
    last = std::max(last, each.written_ns);
  }
  return last;
}

Result<bool> IsAbandoned(const std::string& path, const Leftover& leftover,
                         const TreeMoment& moment) {
  const std::string host = leftover.host.substr(0, leftover.host.find(kBehindHost));
  const bool asks_here = host.empty() ? !moment.shared : host == HostName();
  if (asks_here && FactsOfProcess(leftover.pid)) return false;
  NXDKIT_ASSIGN(const int64_t last, LastChange(path));
  const int64_t patience = asks_here ? kQuietSeconds : kPatienceSeconds;
  if ((moment.now_ns - last) / kSecondNs < patience) return false;
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  if (info.kind != PathKind::kFolder) return true;
  const Result<FolderLock> lock = FolderLock::Try(path, FolderLock::Mode::kExclusive);
  return !lock.ok() || lock->state() != FolderLock::State::kBusy;
}

}  // namespace nxdkit::neff
