// PRIVATE to tools/: the file systems that nxdkit reads and writes.
#pragma once

#include <string>
#include <vector>

#include "tools/env/section.h"

namespace nxdkit::tool {

// The file systems of `paths`; without paths, of the compile cache, the folder for temporary files
// and the current folder. Unknown facts are null.
Section PlacesSection(const std::vector<std::string>& paths);

}  // namespace nxdkit::tool
