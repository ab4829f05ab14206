// Folders: made, removed, synced.
#pragma once

#include <string>

#include "lib/system/look.h"
#include "lib/system/paths.h"

namespace nxdkit {

// Absolute and without symbolic links as far as the path exists; without a trailing slash.
Result<std::string> RealPath(const std::string& path);

// `path` or the nearest parent that exists, where the rest would be made. A path that cannot be
// looked at counts as existing: its user learns why not.
std::string NearestExisting(std::string path);

// Makes the folder and its missing parents. With `sync` every new name is on the disk.
Status MakeFolders(const std::string& path, bool sync = false);

// Removes a file, or a folder with its contents; nothing if it is missing. Never follows links.
Status RemoveTree(const std::string& path);
Status RemoveContents(const std::string& folder);

Status SyncFolder(const std::string& path);

}  // namespace nxdkit
