// The text of a family: whatever its contents, it is refused or gives parameters within bounds, and
// in time.
#include <cstdlib>
#include <string_view>

#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"

namespace {

constexpr std::string_view kConfig = R"({"model_type": "x", "architectures": ["XForCausalLM"],
"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "vocab_size": 10,
"num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 3, "moe_intermediate_size": 6,
"layer_types": ["linear_attention", "full_attention"], "mlp_only_layers": [1],
"tie_word_embeddings": true, "attention_bias": true, "n": 1000000, "nothing": null,
"vision_config": {"hidden_size": 4, "depth": 2, "patch_size": 2}})";

void Use(const nxdkit::models::Model& model) {
  using namespace nxdkit;
  if (model.params.size() > 1'000'000) std::abort();
  if (model.params.size() > 5000) return;  // the rest grows with them
  const models::RankHeads heads{{0, 1}, {0}};
  for (uint32_t i = 0; i < model.params.size(); ++i)
    if (models::CheckEven(model, i, 2).ok())
      (void)models::PartTensor(model, {i}, model.params[i].name, {heads, 2, 1});
  for (const std::string& spelling : models::Spellings(*model.config.family))
    (void)models::SpelledTensors(model, spelling);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit::models;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto family = ParseFamily(text, "fuzz.family");
  if (!family.ok()) return 0;
  const auto shared = std::make_shared<const Family>(*std::move(family));
  const auto config = ParseConfigAs(shared, kConfig, "config.json");
  if (!config.ok()) return 0;
  const auto model = MakeModel(*config);
  if (model.ok()) Use(*model);
  return 0;
}
