// PRIVATE to formats/output: the optimizer state of an NxD tag, from logical parameters to files.
#pragma once

#include <vector>

#include "formats/output/decide_output.h"

namespace nxdkit::ops {

// Decides style and data parallel size of the output's optimizer.
Status DecideOptimizer(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec);

// One optimizer file of the output: TensorIndex i, or in xser TensorReference i, stands for
// tensors[i].
struct OptimizerTree {
  torch::PickleValue root;
  std::vector<TensorLayout> tensors;
};
// That of data parallel rank `dp_rank`; `params`: the model's tensors on its tp and pp rank, in the
// module's order.
Result<OptimizerTree> MakeOptimizerTree(const BoundArtifact& source, const OutputSpec& spec,
                                        const std::vector<TensorLayout>& params, int dp_rank);

}  // namespace nxdkit::ops
