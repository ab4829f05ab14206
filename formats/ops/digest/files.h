// The files of an artifact, hashed.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/run.h"
#include "formats/manifest/manifest.h"

namespace nxdkit::ops {

// Hashes the artifact's file, or all regular files below its folder (for an NxD set: the tag's),
// except those in `without` (by path, on the disk or planned) and those whose name, or folder's
// name, begins with a dot. Links count as their targets; kUnsupported for one that leads to a
// folder around it. A bundle's weights are those of the version that the artifact has open, even if
// the bundle was refreshed since. SHA-256 of each, on run.jobs threads; sorted by path.
Result<std::vector<manifest::FileDigest>> DigestFiles(const Artifact& artifact,
                                                      const std::vector<std::string>& without,
                                                      const RunOptions& run);

}  // namespace nxdkit::ops
