// PRIVATE to formats/kinds: the options that a distributed checkpoint's optimizer has for each
// parameter; formats/training/state_keys.h says where.
#pragma once

#include <vector>

#include "formats/artifact/bound.h"
#include "formats/kinds/dcp/dcp_tensors.h"

namespace nxdkit::ops {

// Of each model parameter of `source`, sorted by name; empty for one that has none. An option may
// be stored as an object or as a tensor without dimensions, which then is its number. kCorrupt for
// two names of one parameter that disagree, and for a group that does not say what is in it.
Result<std::vector<torch::PickleDict>> ReadDcpOptions(const BoundArtifact& source,
                                                      const DcpTensors& known);

}  // namespace nxdkit::ops
