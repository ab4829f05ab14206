// PRIVATE to formats: a tensor of the optimizer as Megatron-Core up to 0.15 stores it where it cuts
// flat: an axis of fragments for each axis of the parameter, and then the elements of one fragment,
// flattened, which data parallel ranks cut anywhere.
#pragma once

#include <vector>

#include "formats/dcp/folder.h"
#include "lib/plan/layout.h"

namespace nxdkit::megatron {

// Whether an entry of this shape can hold the parameter.
bool IsFragmented(const Shape& stored, const Shape& whole);

// The chunks of the entry as boxes of the parameter, of shape `whole`. kCorrupt where fragments and
// shape contradict each other.
Result<std::vector<dcp::StoredChunk>> JoinFragments(const dcp::StoredEntry& entry,
                                                    const Shape& whole);

}  // namespace nxdkit::megatron
