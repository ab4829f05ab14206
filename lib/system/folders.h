// Folders: made, removed, brought to the disk.
#pragma once

#include <string>

#include "lib/system/look.h"
#include "lib/system/paths.h"

namespace nxdkit {

// Absolute and without symbolic links as far as the path exists; without a slash at the end.
Result<std::string> RealPath(const std::string& path);

// `path` or the nearest path above it that exists: where the rest would be made. One that cannot be
// looked at is taken to exist: whoever uses it learns why not.
std::string NearestExisting(std::string path);

// The folder and those above it that are missing. With `sync` every new name is on the disk.
Status MakeFolders(const std::string& path, bool sync = false);

// A file or a folder with all that is in it; nothing when it is missing. Never follows links.
Status RemoveTree(const std::string& path);
Status RemoveContents(const std::string& folder);

Status SyncFolder(const std::string& path);

}  // namespace nxdkit
