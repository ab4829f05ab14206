// PRIVATE to formats/kinds: the optimizer state of an NxD tag, from logical parameters to files.
#pragma once

#include <vector>

#include "formats/kinds/nxd/decide_nxd.h"

namespace nxdkit::kinds {

// Decides style and data parallel size of the output's optimizer; `dp`: as the user asked.
Status DecideOptimizer(const BoundArtifact& source, std::optional<int> dp, NxdOutput& output);

// One optimizer file of the output: TensorIndex i, or in xser TensorReference i, stands for
// tensors[i].
struct OptimizerTree {
  torch::PickleValue root;
  std::vector<TensorLayout> tensors;
};
// The tree of data parallel rank `dp_rank`; `params`: the model's tensors on its tp and pp rank, in
// the module's order.
Result<OptimizerTree> MakeOptimizerTree(const BoundArtifact& source, const NxdOutput& output,
                                        const std::vector<TensorLayout>& params, int dp_rank);

}  // namespace nxdkit::kinds
