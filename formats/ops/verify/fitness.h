// Whether a compiled bundle can run a model's weights, judged from names, shapes, element types and
// configurations: nothing is compiled or run.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/ops/verify/compare.h"
#include "formats/ops/verify/verify.h"
#include "formats/rollout/bundle.h"
#include "lib/tensor/output.h"

namespace nxdkit::ops {

// A model's configuration as its file says it; text "" when there is none.
struct ConfigText {
  std::string text;
  std::string path;
};

// That of the model a bundle was compiled for: its config.json, else NxDI's merged file.
Result<ConfigText> CompiledModel(const rollout::Bundle& bundle);

// The settings of a model that are compiled into a graph (sizes, heads, rope, norms, activation),
// where both files have them, compared as values. Heads that are stored by another GQA strategy on
// `tp` ranks are named so. kCorrupt for a file that is no JSON object.
Result<std::vector<Finding>> CompareModels(const ConfigText& weights, const ConfigText& compiled,
                                           int64_t tp);

// The tensors of one rank of the model against the shard that the bundle has for it.
std::vector<Finding> CompareShard(const TensorFile& compiled, int64_t rank,
                                  std::span<const OutputTensor> model);

// nxdkit-cpu-plan.json of a bundle against what its own configurations give; none without a plan.
std::vector<Finding> CheckCpuPlan(const rollout::Bundle& bundle);

struct FitnessRequest {
  std::string bundle;
  std::string weights;
  std::optional<Kind> weights_kind;  // nullopt: recognised
  InputHints hints;                  // of the weights
  std::function<Status()> poll;
};

// Settings, model, the blob, and the shapes of all ranks; with weights that are rank shards
// already, also that they are cut and typed as the bundle wants them. Errors are those of files
// that cannot be read; what does not fit is a finding.
Result<VerifyReport> JudgeFitness(const FitnessRequest& request);

}  // namespace nxdkit::ops
