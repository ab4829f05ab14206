// Whether a compiled bundle can run a model's weights, judged from names, shapes, element types and
// configurations: nothing is compiled or run.
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

// Settings, model, the blob, and the shapes of all ranks; with weights that are rank shards
// already, also that they are cut and typed as the bundle wants them. Errors are those of files
// that cannot be read; what does not fit is a finding.
Result<VerifyReport> JudgeFitness(const FitnessRequest& request);

}  // namespace nxdkit::ops
