// What the checksums of an artifact's archives prove of the bytes that were read of it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/run.h"

namespace nxdkit::artifact {

struct Proof {
  size_t proved = 0;  // records that are what was written
  size_t partly = 0;  // records that were read in part: nothing tells whether they are
  std::string first;  // the first of these: "TENSOR in FILE"
};

// Which records are read to their end. Of kMost a record of which less than half was read stays
// unproved: a part of a conversion needs little of each.
enum class Proving { kMost, kTouched, kAll };

// Compares the checksums of the artifact's records, and of those of the artifacts that it is merged
// from, after they were read. kCorrupt naming file, record and tensor of the first that is not what
// was written.
Result<Proof> Prove(const BoundArtifact& artifact, Proving proving, const RunOptions& run);

// What is not proved, as a note; none where all is.
std::vector<std::string> ProofNotes(const Proof& proof);

}  // namespace nxdkit::artifact
