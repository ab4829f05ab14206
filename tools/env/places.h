// PRIVATE to tools/: the file systems under what nxdkit reads and writes.
#pragma once

#include <string>
#include <vector>

#include "tools/env/section.h"

namespace nxdkit::tool {

// Of `paths`, or where there are none of the compile cache, the folder for temporary files and the
// current one. What cannot be found out is null.
Section PlacesSection(const std::vector<std::string>& paths);

}  // namespace nxdkit::tool
