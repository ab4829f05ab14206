// config.json: parsed, and a small model laid out in every format.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/models/model.h"
#include "formats/models/rank_tensors.h"
#include "formats/nxd/nxd_layout.h"
#include "formats/rollout/rollout_layout.h"

namespace {

using nxdkit::Errc;

// We make the layouts: for any config they are consistent or refused.
void LayOut(const nxdkit::models::Model& model, int tp) {
  const auto params = model.Logical();
  nxdkit::Layout layout;
  layout.files.push_back({"file", 0, 0});
  nxdkit::nxd::Geometry geometry;
  geometry.tp = tp;
  geometry.qkv = nxdkit::nxd::QkvStyle::kFused;
  const int64_t kv = model.config.kv_heads;
  geometry.kv_multiplier = static_cast<int>(tp > kv ? tp / kv : 1);
  const auto training = nxdkit::nxd::RankTensors(model, geometry, tp - 1, true);
  if (!training.ok() && training.error().code() != Errc::kUnsupported) std::abort();
  if (training.ok())
    for (const auto& tensor : *training) layout.tensors.push_back(tensor.layout);
  nxdkit::rollout::Geometry bundle;
  bundle.tp = tp;
  bundle.fused_qkv = true;
  const auto rollout = nxdkit::rollout::RankTensors(model, bundle, tp - 1);
  if (!rollout.ok() && rollout.error().code() != Errc::kUnsupported) std::abort();
  if (rollout.ok()) layout.tensors.insert(layout.tensors.end(), rollout->begin(), rollout->end());
  if (!nxdkit::CheckLayout(params, layout).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = nxdkit::models::ParseConfig(text, "config.json");
  if (!config.ok()) {
    if (config.error().code() != Errc::kCorrupt) std::abort();
    return 0;
  }
  const auto model =
      nxdkit::models::MakeModel(config->layers > 4 ? nxdkit::models::ModelConfig() : *config);
  if (!model.ok()) {
    if (model.error().code() != Errc::kUnsupported) std::abort();
    return 0;
  }
  if (config->heads > 64) return 0;
  for (const int tp : {1, 3, 8}) LayOut(*model, tp);
  return 0;
}
