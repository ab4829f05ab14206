// PRIVATE to formats/ops/verify: compares the names, shapes and element types that an engine's
// loader asks for with those in a folder.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/serve_scheme.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// "model.layers.3.self_attn.k_scale", which the engine asks for if its KV cache is FP8, and
// "model.layers.3.self_attn.k_proj.k_scale", ModelOpt's name; `of` is 'k' or 'v'.
std::string KvScaleName(int64_t layer, char of);
std::string ModelOptKvScaleName(int64_t layer, char of);

// Adds tensors that are missing, ignored, of another spelling or of another shape, and those that
// are cast.
Status CheckServedNames(const ServedFolder& folder, const models::Model& model,
                        const ServedScheme& scheme, ServeReport& report);

}  // namespace nxdkit::ops
