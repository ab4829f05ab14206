// PRIVATE to formats/ops/read: the part of an output that lies in the files of one rank.
#pragma once

#include <vector>

#include "formats/kinds/builder.h"
#include "formats/ops/read/reader.h"

namespace nxdkit::ops {

// The rest of a planned output: tensors[i] belongs to outputs[i], whose shape is the one that
// the file's format sees.
struct RankTensors {
  Layout layout;
  std::vector<OutputTensor> outputs;
};

// kUsage, with the ranks that there are, for one that no file has.
Result<RankTensors> TensorsOfPlace(OutputPlan output, RankPlace place);

}  // namespace nxdkit::ops
