// The folder of a run, before there is anything in it.
#pragma once

#include <string>

#include "lib/base/error.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::trainer {

// Whether files can be made in `folder`, or where it is missing in the one that it would be made
// in. Makes nothing. kIo with the system's reason.
Status CheckFolderWritable(const std::string& folder);

// Makes it where it is missing. kIo when another process has it: two in one run would each continue
// from the other's checkpoints.
Result<FolderLock> LockRunFolder(const std::string& folder);

}  // namespace nxdkit::trainer
