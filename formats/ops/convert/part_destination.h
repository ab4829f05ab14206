// PRIVATE to formats/ops: one conversion split over processes and machines that share only a file
// system: each makes whole files of the output, without talking to the others, and the last one
// publishes. They meet in the folder OUTPUT.parts (parts_folder.h).
//
// Any part may be run again, even twice at once: it makes the same bytes, and a rename replaces a
// file by its equal. But if two machines were given one number by hand, the second one fails while
// parts are missing (kUsage): they may be waiting for a part that nobody makes.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// The part of each file: the largest file first, to the part with the fewest bytes, the lowest
// number among equals. Every process gets the same answer.
std::vector<int> AssignParts(const std::vector<uint64_t>& file_bytes, int count);

// Leaves only the files of the request's part in `conversion`, which must outlive it. kUsage if the
// output is a single file; Check and Begin if the folder of the parts belongs to another plan or
// another split.
Result<std::unique_ptr<Destination>> MakePart(const ConvertRequest& request,
                                              Conversion& conversion);

}  // namespace nxdkit::ops
