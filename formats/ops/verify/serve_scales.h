// PRIVATE to formats/ops/verify: the scales of FP8 weights and of an FP8 KV cache, as an engine's
// loader would read them.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/serve_scheme.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// Adds scales on which the loader fails, that are not finite numbers, or for which it takes 1.0.
// Missing scales of FP8 weights are left to CheckServedNames.
Status CheckServedScales(const ServedFolder& folder, const models::Model& model,
                         const ServedScheme& scheme, ServeReport& report);

}  // namespace nxdkit::ops
