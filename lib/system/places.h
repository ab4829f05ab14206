// Places where an output may not be: on, in, or around its inputs.
#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// Refuses (kUsage) an output that is one of the `read` files and folders, that holds one of them,
// or whose staging place does: publishing it would destroy them. Paths to the same place through
// symbolic links are the same. Also kIo or kUsage if the output's folder can be neither used nor
// made.
Status CheckPlaces(const std::string& output, const std::vector<std::string>& read);

// Refuses (kUsage) an output that replaces a part of `artifact`, a folder that is read: something
// that already exists inside it. A new name inside it does no harm.
Status CheckNotAPart(const std::string& output, const std::string& artifact);

}  // namespace nxdkit
