// The files of an artifact, hashed.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/run.h"
#include "formats/manifest/manifest.h"

namespace nxdkit::ops {

// The files of an artifact: the file that it is, or all regular files below its folder (of an NxD
// set: the tag's), but those in `without` (by path, as they are or will be on the disk) and all
// whose name, or folder's name, begins with a dot. Links count as what they lead to; kUnsupported
// for one that leads to a folder that it is in. A bundle's weights are those of the version that
// the artifact has open, also when the bundle was refreshed since. SHA-256 of each, on run.jobs
// threads; sorted by path.
Result<std::vector<manifest::FileDigest>> DigestFiles(const Artifact& artifact,
                                                      const std::vector<std::string>& without,
                                                      const RunOptions& run);

}  // namespace nxdkit::ops
