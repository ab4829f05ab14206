// PRIVATE to formats/ops/verify: which installation of optimum-neuron loads a bundle.
#pragma once

#include <vector>

#include "formats/ops/verify/verify.h"
#include "formats/rollout/bundle.h"
#include "formats/rollout/installed.h"

namespace nxdkit::ops {

// Adds a check that names the versions, and a warning for each installation that has others. A
// bundle without versions is a finding: optimum-neuron demands them.
void NameLoaders(const rollout::Bundle& bundle,
                 const std::vector<rollout::Installation>& installations, VerifyReport& report);

}  // namespace nxdkit::ops
