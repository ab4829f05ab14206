// PRIVATE to formats/ops/verify: the single numbers that go with FP8 weights and an FP8 KV cache,
// as an engine's loader would take them.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/serve_scheme.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// Adds scales that the loader ends on, that are no numbers, or that it takes 1.0 for. Those that
// are missing of FP8 weights are CheckServedNames'.
Status CheckServedScales(const ServedFolder& folder, const models::Model& model,
                         const ServedScheme& scheme, ServeReport& report);

}  // namespace nxdkit::ops
