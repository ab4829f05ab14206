// PRIVATE to formats/ops/verify: how the weights of a folder are quantised, and whether a vLLM
// Neuron engine takes it.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// Adds a scheme that the engine refuses, and weights whose type or scales are not the scheme's.
Status CheckServedScheme(const ServedFolder& folder, const models::Model& model,
                         ServeReport& report);

}  // namespace nxdkit::ops
