// PRIVATE to formats/ops/verify: the quantisation of a folder's weights and KV cache, and whether a
// vLLM Neuron engine accepts it.
#pragma once

#include <string>
#include <vector>

#include "formats/ops/verify/serve.h"
#include "formats/ops/verify/served_folder.h"

namespace nxdkit::ops {

// The quantisation in config.json, or in hf_quant_config.json if that has none.
struct ServedScheme {
  std::string name;      // "modelopt FP8"; "": weights are not quantised
  std::string refusal;   // "": the engine accepts it
  std::string kv_cache;  // "kv_cache_scheme": the key that announces a quantised cache; "": none
  std::string path;      // of the file

  bool quantises() const { return !name.empty() && refusal.empty(); }
};

Result<ServedScheme> ReadServedScheme(const ServedFolder& folder, const models::Model& model);

// Whether the engine's parameter is FP8 under the scheme: every projection of a layer, whatever the
// scheme's own list of exceptions says.
bool IsQuantised(const models::Param& param, const ServedScheme& scheme);

// The scales that the loader asks for with such a parameter: the weight's and the input's, except
// for up_proj, whose input is gate_proj's.
std::vector<std::string> ScaleNames(const models::Param& param);

// Whether it is a scale of a quantised weight: "a.weight_scale" and the like.
bool IsWeightScale(std::string_view name);

// Adds a scheme that the engine refuses, and weights whose type is not the scheme's.
void CheckServedScheme(const ServedFolder& folder, const models::Model& model,
                       const ServedScheme& scheme, ServeReport& report);

}  // namespace nxdkit::ops
