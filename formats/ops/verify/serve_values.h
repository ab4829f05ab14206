// PRIVATE to formats/ops/verify: values that decide whether an engine serves a folder: FP8 numbers
// that the chip does not have, KV scales, and a head beside the embedding that is loaded for it.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

Status CheckServedValues(const ServedFolder& folder, const models::Model& model,
                         const ServeRequest& request, ServeReport& report);

}  // namespace nxdkit::ops
