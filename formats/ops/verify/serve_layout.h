// PRIVATE to formats/ops/verify: a model's tensors on the cores of an engine, by its layout: sizes
// that break a rule, key heads that become zeros, elements that are on no core, bytes.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/serve_scheme.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// Adds findings and fills in loads and bytes, which stay empty if the sizes have no layout.
Status CheckServedLayout(const ServedFolder& folder, const models::Model& model,
                         const ServedScheme& scheme, const ServeRequest& request,
                         ServeReport& report);

}  // namespace nxdkit::ops
