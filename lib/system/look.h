// What is at a path. Everybody asks here, so that "not there" is one thing everywhere: ENOENT and
// ENOTDIR. What is there and cannot be looked at (no permission, EIO, ESTALE, a loop of links, a
// link to nothing) is an error, never something missing: else a disk that answers badly for a
// moment turns into an output without its optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// kLink is said by LookAtLink and the lists alone.
enum class PathKind { kMissing, kFile, kFolder, kLink, kOther };

struct PathInfo {
  PathKind kind = PathKind::kMissing;  // and then all else is 0
  uint64_t bytes = 0;
  uint64_t links = 0;  // hard links
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t read_ns = 0;     // time of the last read, as far as the file system keeps it
  int64_t written_ns = 0;  // time of the last change of the bytes
  int64_t changed_ns = 0;  // time of the last change of the file itself
};

Result<PathInfo> LookAt(const std::string& path);      // follows symbolic links
Result<PathInfo> LookAtLink(const std::string& path);  // not the last one

// The same, in one word. They follow symbolic links, but for IsLink.
Result<PathKind> KindOf(const std::string& path);
Result<bool> IsThere(const std::string& path);
Result<bool> IsFile(const std::string& path);
Result<bool> IsFolder(const std::string& path);
Result<bool> HasFile(const std::string& folder, std::string_view name);
Result<bool> IsLink(const std::string& path);

// Where a link leads, as it is written; "" where there is none.
Result<std::string> ReadLink(const std::string& path);

// For hints and warnings alone, which nothing that is made depends on: kOther for what cannot be
// looked at.
PathKind KindForHint(const std::string& path);

// Direct children, sorted by name bytes; no "." and "..".
Result<std::vector<std::string>> ListFolder(const std::string& path);
// The same, and nothing where there is no folder.
Result<std::vector<std::string>> ListIfThere(const std::string& path);
// The same children, each with its own kind (kLink for a link) where the file system says it with
// the name.
struct FolderEntry {
  std::string name;
  std::optional<PathKind> kind;
};
Result<std::vector<FolderEntry>> ListEntries(const std::string& path);

// All that is below a folder, a folder before what is in it. Links are not followed; what goes
// meanwhile is left out.
struct TreeEntry {
  std::string path;  // below the folder
  PathKind kind;     // its own: kLink for a link
};
Result<std::vector<TreeEntry>> ListTree(const std::string& folder);

}  // namespace nxdkit
