// Checks the bytes that were read of an artifact against the checksums of its archives.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/run.h"

namespace nxdkit::artifact {

struct Proof {
  size_t proved = 0;  // records that match their checksums
  size_t partly = 0;  // records that were read in part: not verified
  std::string first;  // the first of these: "TENSOR in FILE"
};

// The records that are read to their end. With kMost a record of which less than half was read
// stays unverified: a part of a conversion needs little of each.
enum class Proving { kMost, kTouched, kAll };

// Compares the checksums of the artifact's records, and of those of the artifacts that it is merged
// from, after they were read. kCorrupt naming file, record and tensor of the first that does not
// match.
Result<Proof> Prove(const BoundArtifact& artifact, Proving proving, const RunOptions& run);

// A note on the records that are not verified; none if all are.
std::vector<std::string> ProofNotes(const Proof& proof);

}  // namespace nxdkit::artifact
