// PRIVATE to formats/ops: the optimizer state of an NxD tag, from files to logical parameters and
// back.
#pragma once

#include <span>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/output/output_plan.h"

namespace nxdkit::ops {

// Adds the state of the tag's optimizer to a bound NxD set: files, layout, logical parameters. A
// tag without one stays as it is. kUnsupported where a number cannot be mapped to its parameter
// with certainty; kCorrupt for state that is not whole, which the known faulty writers leave.
Status BindOptimizer(BoundArtifact& out, const InputHints& hints);

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
