// The checksums that torch archives carry of their own bytes. Nothing else tells a damaged element
// of a weight that is stored once.
#pragma once

#include <vector>

#include "formats/ops/artifact.h"
#include "formats/ops/compare.h"
#include "formats/ops/run.h"

namespace nxdkit::ops {

// The files of the artifact that are torch archives with checksums, each once, in order; empty for
// formats without.
std::vector<std::string> FilesWithChecksums(const Artifact& artifact);

// Reads every one of them whole. A record whose bytes are not those that were written is a finding.
Result<std::vector<Finding>> CheckChecksums(const Artifact& artifact, const RunOptions& run);

}  // namespace nxdkit::ops
