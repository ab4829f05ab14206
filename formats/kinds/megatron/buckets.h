// PRIVATE to formats/kinds/megatron: the optimizer's state in flat buckets without names
// (dp_reshardable). The place of each parameter follows from the order in which Megatron's modules
// register theirs, which no file records: it is verified by the sizes of all buckets, and by
// values, since master weights round to the weights.
#pragma once

#include <vector>

#include "formats/dcp/folder.h"
#include "formats/models/model.h"

namespace nxdkit::kinds {

bool HasBuckets(const dcp::Folder& stored);

// The state as entries by parameters, "optimizer.state.WHAT.KEY", where KEY is the model's tensor.
// kUnsupported if no known order fits sizes and values.
Result<std::vector<dcp::StoredEntry>> JoinBuckets(const dcp::Folder& stored, int64_t layers);

}  // namespace nxdkit::kinds
