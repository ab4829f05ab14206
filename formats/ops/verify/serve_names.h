// PRIVATE to formats/ops/verify: the names, shapes and element types that an engine's loader asks a
// folder for, against those that are there.
#pragma once

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// "model.layers.3.self_attn.k_scale", which the engine asks for where its KV cache is FP8; `of` is
// "k_scale" or "v_scale".
std::string KvScaleName(int64_t layer, std::string_view of);

// Scales belong to a quantised weight: "a.weight_scale" and the like.
bool IsWeightScale(std::string_view name);

// Adds what is missing, ignored, of another spelling or of another shape, and what is cast.
Status CheckServedNames(const ServedFolder& folder, const models::Model& model,
                        ServeReport& report);

}  // namespace nxdkit::ops
