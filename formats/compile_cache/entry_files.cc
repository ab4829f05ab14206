#include "formats/compile_cache/entry_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include "formats/compile_cache/leftovers.h"
#include "formats/neff/header.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {

bool IsLowerHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<bool> IsRealFolder(const std::string& path) {
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  return info.kind == PathKind::kFolder;
}

Status CountFiles(CacheEntry& entry) {
  NXDKIT_ASSIGN(const std::vector<TreeEntry> all, ListTree(entry.path));
  for (const TreeEntry& each : all) {
    if (each.kind != PathKind::kFile) continue;
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(JoinPath(entry.path, each.path)));
    entry.files += info.kind == PathKind::kFile;
    entry.bytes += info.bytes;
  }
  return OkStatus();
}

std::string EntryName(const CacheEntry& entry) {
  return entry.compiler.empty() ? entry.module : JoinPath(entry.compiler, entry.module);
}

Status KeepFault(const std::string& file, const Status& checked, std::vector<EntryFault>& faults,
                 Severity severity) {
  if (checked.ok()) return OkStatus();
  const Error& error = checked.error();
  if (error.code() != Errc::kCorrupt && error.code() != Errc::kNotFound &&
      error.code() != Errc::kUnsupported)
    return error;
  std::string message = error.message();
  if (!error.member().empty()) message = error.member() + ": " + message;
  if (error.offset()) message = fmt::format("offset {}: {}", *error.offset(), message);
  faults.push_back({file, std::move(message), severity});
  return OkStatus();
}

Result<std::vector<std::string>> NeffFaults(const std::string& path,
                                            const std::function<Status()>& poll) {
  std::vector<std::string> messages;
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  NXDKIT_ASSIGN(const Located neff, ReadAt(file, 0, file.bytes()));
  const uint64_t whole = kHeaderBytes + neff.header.data_bytes;
  if (whole != file.bytes())
    messages.push_back(fmt::format("{} bytes found, the header says {}", file.bytes(), whole));
  NXDKIT_ASSIGN(const bool matches, HashMatches(file, neff, poll));
  if (!matches)
    messages.push_back("the payload does not have the hash of the header, " +
                       HashText(neff.header));
  return messages;
}

KeepAccessTime::KeepAccessTime(std::string path) : path_(std::move(path)) {
  // On failure, the next reader of the file reports why.
  if (const Result<PathInfo> info = LookAt(path_); info.ok()) before_ = *info;
}

KeepAccessTime::~KeepAccessTime() {
  if (before_.kind == PathKind::kMissing) return;
  const timespec times[2] = {{before_.read_ns / kSecondNs, before_.read_ns % kSecondNs},
                             {0, UTIME_OMIT}};
  // A read-only cache has no times to restore.
  static_cast<void>(::utimensat(AT_FDCWD, path_.c_str(), times, 0) == 0);
}

}  // namespace nxdkit::neff
