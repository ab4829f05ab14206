// Copies a file byte for byte.
#pragma once

#include <string>

#include "lib/error.h"

namespace nxdkit {

// Copies `from` to the new or overwritten file `to`, in bounded memory; synced when asked to.
Status CopyFile(const std::string& from, const std::string& to, bool sync);

}  // namespace nxdkit
