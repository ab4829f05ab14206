// PRIVATE to tools/: an inspection as a page: the tree of its tensors by size, and the ranks that
// hold a chosen one.
#pragma once

#include <string>

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::tool {

std::string InspectPage(const ops::Inspection& inspection);

}  // namespace nxdkit::tool
