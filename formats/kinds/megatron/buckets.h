// PRIVATE to formats/kinds/megatron: the optimizer's state in flat buckets without names
// (dp_reshardable). Which parameter lies where follows from the order in which Megatron's modules
// register theirs, which no file says: it is proved by the sizes of all buckets, and by values, as
// master weights round to the weights.
#pragma once

#include <vector>

#include "formats/dcp/folder.h"
#include "formats/models/model.h"

namespace nxdkit::kinds {

bool HasBuckets(const dcp::Folder& stored);

// The state as entries by parameters, "optimizer.state.WHAT.KEY", KEY as the model's tensor has it.
// kUnsupported where no order that is known fits sizes and values.
Result<std::vector<dcp::StoredEntry>> JoinBuckets(const dcp::Folder& stored, int64_t layers);

}  // namespace nxdkit::kinds
