#include "formats/ops/convert/part_owner.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"

namespace nxdkit::ops {
namespace {

// A process on another machine that has written nothing for this long is taken for dead.
constexpr std::chrono::seconds kIsDead(60);
constexpr std::chrono::milliseconds kBetweenLooks(200);
constexpr uint64_t kMaxOwnerBytes = 4096;

// The last time that an attempt at the part wrote something, by the clock of the file system.
int64_t LastWrite(const std::string& folder, int part, const std::string& own_attempt) {
  const auto names = ListFolder(folder);
  const std::string prefix = fmt::format("part-{}-", part);
  int64_t last = 0;
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string attempt = JoinPath(folder, name);
    if (!name.starts_with(prefix) || attempt == own_attempt) continue;
    const Result<std::vector<TreeEntry>> entries = ListTree(attempt);
    for (const TreeEntry& entry : entries.ok() ? *entries : std::vector<TreeEntry>())
      last = std::max(last, ChangedAt(JoinPath(attempt, entry.path)));
    last = std::max(last, ChangedAt(attempt));
  }
  return last;
}

Error Lives(const std::string& path, const std::optional<Owner>& owner) {
  const std::string who =
      owner ? fmt::format("pid {} on {}", owner->pid, owner->host) : "it does not say which";
  return Error(Errc::kIo, fmt::format("another process makes this part too ({})", who))
      .in(path)
      .hint("give every process its own --part I/N");
}

// A process that was killed on another machine, or in a container that is restarted, only goes
// silent. The file system's clock measures the silence; ours ends the wait if that clock stands
// still or cannot be read.
Status AwaitSilence(const std::string& path, const std::function<int64_t()>& last_sign,
                    const std::string& attempt, const RunOptions& run) {
  const int64_t first = last_sign();
  const auto until = std::chrono::steady_clock::now() + kIsDead;
  while (std::chrono::steady_clock::now() < until) {
    ::utimensat(AT_FDCWD, attempt.c_str(), nullptr, 0);
    const Result<std::string> text = ReadSmallFile(path, kMaxOwnerBytes);
    // It finished in the meantime, and its folder may be gone with it.
    if (!text.ok() && text.error().code() == Errc::kNotFound) return OkStatus();
    const std::optional<Owner> owner = text.ok() ? ParseOwner(*text) : std::nullopt;
    const Alive alive = owner ? AskAlive(*owner) : Alive::kUnknown;
    const int64_t last = last_sign();
    if (!MayLive(alive, last, ChangedAt(attempt), kIsDead.count())) return OkStatus();
    if (alive == Alive::kYes || last > first) return Lives(path, owner);
    if (run.poll) NXDKIT_TRY(run.poll());
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return OkStatus();
}

}  // namespace

PartOwner::~PartOwner() {
  // If this process was silent, another one may have the file.
  if (path_.empty()) return;
  const Result<std::string> text = ReadSmallFile(path_, kMaxOwnerBytes);
  if (text.ok() && *text == ThisProcess().ToText()) ::unlink(path_.c_str());
}

Status PartOwner::Take(const std::string& folder, int part, const std::string& attempt,
                       const RunOptions& run) {
  const std::string path = JoinPath(folder, fmt::format("owner-{}", part));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0) {
    ::close(fd);
  } else if (errno != EEXIST) {
    return OutputError("create", errno).in(path);
  } else {
    const auto last_sign = [&] {
      return std::max(LastWrite(folder, part, attempt), ChangedAt(path));
    };
    NXDKIT_TRY(AwaitSilence(path, last_sign, attempt, run));
  }
  NXDKIT_TRY(WriteFileAtomic(path, ThisProcess().ToText()));
  path_ = path;
  return OkStatus();
}

}  // namespace nxdkit::ops
