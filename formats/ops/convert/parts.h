// One conversion split over processes and machines that share nothing but a file system: each makes
// whole files of the output, without talking to the others, and the last one publishes.
//
//   OUTPUT.parts/plan           fingerprint of the plan, and into how many parts it is split
//   OUTPUT.parts/part-I-...     where part I builds; private to one attempt
//   OUTPUT.parts/files/...      finished files, synced and renamed into place
//   OUTPUT.parts/done-I         part I's files are all there
//
// Any part may be run again, even twice at once: it makes the same bytes, and a rename replaces a
// file by its equal.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/ops/convert/convert.h"

namespace nxdkit::ops {

// The part of each file: the largest first to the part that has the fewest bytes, the lowest
// number among equals. Every process comes to the same answer.
std::vector<int> AssignParts(const std::vector<uint64_t>& file_bytes, int count);

// Convert for a request with `part`. kUsage when the output is a single file, or when the folder of
// the parts belongs to another plan or another split.
Result<ConvertReport> ConvertPart(const ConvertRequest& request);
// The same without writing: what this part would do.
Result<ConvertReport> DryRunPart(const ConvertRequest& request);

}  // namespace nxdkit::ops
