#include "formats/rollout/foreign_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "lib/base/errors.h"
#include "lib/system/copy_file.h"
#include "lib/system/folders.h"

namespace nxdkit::rollout {
namespace {

namespace fs = std::filesystem;

constexpr char kHint[] = "move it out of the folder of the weights";

Error TooMuch(const std::string& what, const std::string& path) {
  return Unsupported(
             "not part of the weights; each refresh copies such files, and they are over {}", what)
      .in(path)
      .hint(kHint);
}

Status CopyLink(const std::string& from, const std::string& to) {
  std::error_code failure;
  fs::copy_symlink(from, to, failure);
  if (failure) return OutputError("create the link", failure.value()).in(to);
  return OkStatus();
}

Status CopyOne(const std::string& from, const std::string& to, bool sync) {
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(from));
  if (info.kind == PathKind::kLink) return CopyLink(from, to);
  if (info.kind == PathKind::kFile) return CopyFileAndAccess(from, to, sync);
  if (::mkdir(to.c_str(), 0700) != 0) return OutputError("create the folder", errno).in(to);
  return OkStatus();
}

Status FinishFolder(const std::string& from, const std::string& to, bool sync) {
  const int fd = ::open(to.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return OutputError("open the folder", errno).in(to);
  Status done = KeepAccess(from, fd, to);
  if (done.ok() && sync && ::fsync(fd) != 0) done = OutputError("sync the folder", errno).in(to);
  ::close(fd);
  return done;
}

}  // namespace

Result<std::vector<std::string>> ListForeign(const std::string& weights,
                                             const std::vector<std::string>& ours) {
  std::vector<std::string> found;
  std::vector<std::string> folders{""};  // yet to be listed, below `weights`
  uint64_t bytes = 0;
  for (size_t next = 0; next < folders.size(); ++next) {
    const std::string below = folders[next];
    NXDKIT_ASSIGN(const std::vector<std::string> names,
                  ListFolder(below.empty() ? weights : JoinPath(weights, below)));
    for (const std::string& name : names) {
      if (below.empty() && std::ranges::count(ours, name) > 0) continue;
      found.push_back(below.empty() ? name : JoinPath(below, name));
      const std::string path = JoinPath(weights, found.back());
      NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
      if (info.kind == PathKind::kMissing) return NotFound("it disappeared meanwhile").in(path);
      if (found.size() > kMaxForeignEntries)
        return TooMuch(fmt::format("{} in number", kMaxForeignEntries), path);
      if (info.kind == PathKind::kFolder) {
        folders.push_back(found.back());
      } else if (info.kind == PathKind::kFile) {
        bytes += info.bytes;  // 10,000 sizes of a file: far from 2^64
        if (bytes > kMaxForeignBytes)
          return TooMuch(fmt::format("{} MiB together", kMaxForeignBytes >> 20), path);
      } else if (info.kind != PathKind::kLink) {
        return Unsupported("neither a file nor a folder nor a link: no refresh keeps it")
            .in(path)
            .hint(kHint);
      }
    }
  }
  return found;
}

Status CopyForeign(const std::vector<std::string>& paths, const std::string& from,
                   const std::string& to, bool sync) {
  for (const std::string& path : paths)
    NXDKIT_TRY(CopyOne(JoinPath(from, path), JoinPath(to, path), sync));
  // Modes are set last, contents before their folder: either mode may forbid writing.
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    const std::string copy = JoinPath(to, *path);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(copy));
    if (info.kind != PathKind::kFolder) continue;
    NXDKIT_TRY(FinishFolder(JoinPath(from, *path), copy, sync));
  }
  return OkStatus();
}

}  // namespace nxdkit::rollout
