// Copies a file byte for byte.
#pragma once

#include <string>

#include "lib/base/error.h"

namespace nxdkit {

// Copies `from` to the new or overwritten file `to`, in bounded memory; synced if asked.
Status CopyFile(const std::string& from, const std::string& to, bool sync);

// The same for a file that must not be a link: a link in its place is refused.
Status CopyFileItself(const std::string& from, const std::string& to, bool sync);

// The same to a new file, with owner and mode as KeepAccess copies them. Nobody else can open the
// copy before it is complete.
Status CopyFileAndAccess(const std::string& from, const std::string& to, bool sync);

// Gives the file or folder `to`, open as `fd`, the mode of `from`, and its owner and group as far
// as permitted. Set-user-ID and set-group-ID stay only if both are then the same: such a program
// would run as somebody else.
Status KeepAccess(const std::string& from, int fd, const std::string& to);

}  // namespace nxdkit
