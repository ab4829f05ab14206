// PRIVATE to formats: the artifacts around a folder that is not one.
#pragma once

#include <string>
#include <vector>

#include "lib/system/looker.h"

namespace nxdkit::kinds {

// The artifacts one or two folders deeper, as paths below `path`, the highest number first. Reads
// only listings, at most a few hundred of them; hidden folders and entries that cannot be looked at
// are skipped.
std::vector<std::string> ArtifactsBelow(const std::string& path, const Looker& look);

// The nearest folder above, up to two, that is an artifact; "" if there is none.
std::string ArtifactAround(const std::string& path, const Looker& look);

}  // namespace nxdkit::kinds
