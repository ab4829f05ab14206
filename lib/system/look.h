// The state of a path. All code asks here, so that "not there" means the same everywhere: ENOENT
// and ENOTDIR. A path that exists and cannot be looked at (no permission, EIO, ESTALE, a loop of
// links, a link to nothing) is an error, never missing: else a disk that answers badly for a moment
// leads to an output without its optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// kLink is returned by LookAtLink and the lists only.
enum class PathKind { kMissing, kFile, kFolder, kLink, kOther };

struct PathInfo {
  PathKind kind = PathKind::kMissing;  // then all else is 0
  uint64_t bytes = 0;
  uint64_t links = 0;  // hard links
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t read_ns = 0;     // last read, as far as the file system records it
  int64_t written_ns = 0;  // last change of the bytes
  int64_t changed_ns = 0;  // last change of the inode
};

Result<PathInfo> LookAt(const std::string& path);      // follows symbolic links
Result<PathInfo> LookAtLink(const std::string& path);  // not the last one

// The same, reduced to one word. All but IsLink follow symbolic links.
Result<PathKind> KindOf(const std::string& path);
Result<bool> IsThere(const std::string& path);
Result<bool> IsFile(const std::string& path);
Result<bool> IsFolder(const std::string& path);
Result<bool> HasFile(const std::string& folder, std::string_view name);
Result<bool> IsLink(const std::string& path);

// The target of a link, as written; "" if there is none.
Result<std::string> ReadLink(const std::string& path);

// Only for hints and warnings, on which no output depends: kOther for a path that cannot be looked
// at.
PathKind KindForHint(const std::string& path);

// Direct children, sorted by name bytes; no "." and "..".
Result<std::vector<std::string>> ListFolder(const std::string& path);
// The same; empty if there is no folder.
Result<std::vector<std::string>> ListIfThere(const std::string& path);
// The same children, each with its own kind (kLink for a link) where the file system gives it with
// the name.
struct FolderEntry {
  std::string name;
  std::optional<PathKind> kind;
};
Result<std::vector<FolderEntry>> ListEntries(const std::string& path);

// Everything below a folder, a folder before its contents. Links are not followed; entries that
// disappear meanwhile are left out.
struct TreeEntry {
  std::string path;  // below the folder
  PathKind kind;     // its own: kLink for a link
};
Result<std::vector<TreeEntry>> ListTree(const std::string& folder);

}  // namespace nxdkit
