// PRIVATE to formats/ops/verify: the names, shapes and element types that an engine's loader asks a
// folder for, against those that are there.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/serve_scheme.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// "model.layers.3.self_attn.k_scale", which the engine asks for where its KV cache is FP8, and
// "model.layers.3.self_attn.k_proj.k_scale", as ModelOpt calls it; `of` is 'k' or 'v'.
std::string KvScaleName(int64_t layer, char of);
std::string ModelOptKvScaleName(int64_t layer, char of);

// Adds what is missing, ignored, of another spelling or of another shape, and what is cast.
Status CheckServedNames(const ServedFolder& folder, const models::Model& model,
                        const ServedScheme& scheme, ServeReport& report);

}  // namespace nxdkit::ops
