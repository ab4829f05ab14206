// PRIVATE to tools/: the program itself, the libraries that it has, and the machine that it runs
// on, without its devices.
#pragma once

#include "tools/env/section.h"

namespace nxdkit::tool {

Section BuildSection();
Section LibrariesSection();
Section SystemSection();

}  // namespace nxdkit::tool
