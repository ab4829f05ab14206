// The checksums that torch archives carry of their own bytes. Nothing else tells a damaged element
// of a weight that is stored once.
#pragma once

#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/finding.h"
#include "formats/artifact/run.h"

namespace nxdkit::ops {

// The archives of the artifact, each once, in order; empty for formats without checksums.
std::vector<ArchiveRange> ArchivesWithChecksums(const Artifact& artifact);

// Records that are not what was written are read as they are: CheckChecksums names all of them.
void DeferChecksums(const Artifact& artifact);

// Reads every archive whole, but for the records that were proved as they were read. A record whose
// bytes are not those that were written is a finding.
Result<std::vector<Finding>> CheckChecksums(const Artifact& artifact, const RunOptions& run);

}  // namespace nxdkit::ops
