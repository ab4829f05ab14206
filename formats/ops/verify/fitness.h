// Judges from names, shapes, element types and configurations whether a compiled bundle can run a
// model's weights: nothing is compiled or run.
#pragma once

#include <functional>
#include <string>

#include "formats/ops/verify/verify.h"
#include "formats/rollout/bundle.h"

namespace nxdkit::ops {

struct FitnessRequest {
  std::string bundle;
  std::string weights;
  const Kind* weights_kind = nullptr;  // null: recognised
  InputHints hints;                    // of the weights
  std::function<Status()> poll;
};

// Checks settings, model, the blob, and the shapes of all ranks; for weights that already are rank
// shards, also that they are cut and typed as the bundle expects. Errors are those of files that
// cannot be read; anything that does not fit is a finding.
Result<VerifyReport> JudgeFitness(const FitnessRequest& request);

}  // namespace nxdkit::ops
