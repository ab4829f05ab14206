// Folders, and what is at a path.
#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/paths.h"

namespace nxdkit {

enum class PathKind { kMissing, kFile, kFolder, kOther };
PathKind KindOf(const std::string& path);  // follows symbolic links

// Absolute and without symbolic links as far as the path exists; without a slash at the end.
std::string RealPath(const std::string& path);

// `path` or the nearest path above it that exists: where the rest would be made.
std::string NearestExisting(std::string path);

// Direct children, sorted by name bytes; no "." and "..".
Result<std::vector<std::string>> ListFolder(const std::string& path);

// The folder and those above it that are missing. With `sync` every new name is on the disk.
Status MakeFolders(const std::string& path, bool sync = false);

// A file or a folder with all that is in it; nothing when it is missing. Never follows links.
Status RemoveTree(const std::string& path);
Status RemoveContents(const std::string& folder);

Status SyncFolder(const std::string& path);

}  // namespace nxdkit
