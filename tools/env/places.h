// PRIVATE to tools/: the file systems under what nxdkit reads and writes.
#pragma once

#include <string>
#include <vector>

#include "tools/env/section.h"

namespace nxdkit::tool {

// The file systems of `paths`, or where there are none of the compile cache, the folder for
// temporary files and the current one. Facts that cannot be found out are null.
Section PlacesSection(const std::vector<std::string>& paths);

}  // namespace nxdkit::tool
