// PRIVATE: locks on the entries of a compile cache.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lib/base/error.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::neff {

// Who reads an entry shares its lock, who makes or removes it has it alone. On file systems without
// locks it is always granted.
//
// nullopt when another has it, or when the folder was replaced meanwhile; kNotFound when there is
// no such folder.
Result<std::optional<FolderLock>> TryLock(const std::string& folder, FolderLock::Mode mode);
// Waits, asking `poll` in between.
Result<FolderLock> WaitForLock(const std::string& folder, FolderLock::Mode mode,
                               const std::function<Status()>& poll);

// Whether a living process holds the file lock `path` (a *.lock of the vendor's libraries, which
// are flocks too); true as well when it cannot be told.
bool IsHeld(const std::string& path);
// A *.lock of the vendor's libraries in the entry that a living process holds.
bool AnyLockHeld(const std::string& folder);

}  // namespace nxdkit::neff
