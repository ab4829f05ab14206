// PRIVATE: locks on the entries of a compile cache.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lib/base/error.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::neff {

// Readers of an entry share its lock; a process that makes or removes it holds the lock alone. On
// file systems without locks it is always granted.
//
// nullopt when another process holds it, or when the folder was replaced meanwhile; kNotFound when
// there is no such folder.
Result<std::optional<FolderLock>> TryLock(const std::string& folder, FolderLock::Mode mode);
// Waits for the lock, calling `poll` regularly.
Result<FolderLock> WaitForLock(const std::string& folder, FolderLock::Mode mode,
                               const std::function<Status()>& poll);

// Whether a living process holds the lock file `path` (a *.lock of the vendor's libraries, which
// are flocks too); also true if this is unknown.
bool IsHeld(const std::string& path);
// Whether a living process holds a *.lock of the vendor's libraries in the entry.
bool AnyLockHeld(const std::string& folder);

}  // namespace nxdkit::neff
