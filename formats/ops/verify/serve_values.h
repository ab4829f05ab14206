// PRIVATE to formats/ops/verify: values that decide whether an engine can serve a folder: FP8
// weights, and a head next to the embedding that is loaded in its place.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/serve_scheme.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

Status CheckServedValues(const ServedFolder& folder, const models::Model& model,
                         const ServedScheme& scheme, const ServeRequest& request,
                         ServeReport& report);

}  // namespace nxdkit::ops
