// PRIVATE to formats/ops: one conversion split over processes and machines that share nothing but a
// file system: each makes whole files of the output, without talking to the others, and the last
// one publishes. They meet in the folder OUTPUT.parts (parts_folder.h).
//
// Any part may be run again, even twice at once: it makes the same bytes, and a rename replaces a
// file by its equal. But of two machines that were told one number by hand the second one fails
// while parts are missing (kUsage): they may wait for a part that nobody makes.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// The part of each file: the largest first to the part that has the fewest bytes, the lowest
// number among equals. Every process comes to the same answer.
std::vector<int> AssignParts(const std::vector<uint64_t>& file_bytes, int count);

// Leaves the files of the request's part alone in `conversion`, which must outlive it. kUsage when
// the output is a single file; Check and Begin when the folder of the parts belongs to another plan
// or another split.
Result<std::unique_ptr<Destination>> MakePart(const ConvertRequest& request,
                                              Conversion& conversion);

}  // namespace nxdkit::ops
