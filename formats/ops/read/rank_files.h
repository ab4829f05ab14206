// PRIVATE to formats/ops/read: the part of an output in the files of one rank.
#pragma once

#include <vector>

#include "formats/kinds/builder.h"
#include "formats/ops/read/reader.h"

namespace nxdkit::ops {

// The part of a planned output that is left: tensors[i] belongs to outputs[i], which has the shape
// in the file.
struct RankTensors {
  Layout layout;
  std::vector<OutputTensor> outputs;
};

// kUsage, with the existing ranks, for one that no file has.
Result<RankTensors> TensorsOfPlace(OutputPlan output, RankPlace place);

}  // namespace nxdkit::ops
