// PRIVATE to tools/: the program itself, its libraries, and the machine without its devices.
#pragma once

#include "tools/env/section.h"

namespace nxdkit::tool {

Section BuildSection();
Section LibrariesSection();
Section SystemSection();

}  // namespace nxdkit::tool
