// The checksums that torch archives have of their own bytes. Nothing else reveals a damaged element
// of a weight that is stored once.
#pragma once

#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/finding.h"
#include "formats/artifact/run.h"

namespace nxdkit::ops {

// The archives of the artifact, each once, in order; empty for formats without checksums.
std::vector<ArchiveRange> ArchivesWithChecksums(const Artifact& artifact);

// Damaged records are then read without an error: CheckChecksums names all of them.
void DeferChecksums(const Artifact& artifact);

// Reads every archive completely, except for records that were verified when they were read. A
// record whose bytes do not match its checksum is a finding.
Result<std::vector<Finding>> CheckChecksums(const Artifact& artifact, const RunOptions& run);

}  // namespace nxdkit::ops
