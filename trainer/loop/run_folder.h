// The folder of a run, before it has contents.
#pragma once

#include <string>

#include "lib/base/error.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::trainer {

// Checks that files can be created in `folder` or, if it is missing, in the one that would contain
// it. Creates nothing. kIo with the system's reason.
Status CheckFolderWritable(const std::string& folder);

// Creates it if it is missing. kIo when another process has it: two runs in one folder would each
// continue from the other's checkpoints.
Result<FolderLock> LockRunFolder(const std::string& folder);

}  // namespace nxdkit::trainer
