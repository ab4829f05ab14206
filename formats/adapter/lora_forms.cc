#include "formats/adapter/lora_forms.h"

#include <map>

#include "formats/adapter/lora_numbering.h"
#include "lib/base/errors.h"

namespace nxdkit::adapter {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

std::string LastOf(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// The number of the model's weights for each module's last name, and of those that are adapted.
struct Share {
  int adapted = 0;
  int all = 0;
};
std::map<std::string, Share> Shares(const BoundArtifact& adapter, nxd::LoraSharing sharing) {
  std::map<std::string, Share> shares;
  std::map<std::string, bool> modules;
  for (size_t i = 0; i < adapter.model->params.size(); ++i)
    if (const auto module = nxd::LoraModule(adapter.model->params[i], sharing))
      modules[*module] |= adapter.lora->pairs[i].has_value();
  for (const auto& [module, adapted] : modules) {
    Share& share = shares[LastOf(module)];
    ++share.all;
    share.adapted += adapted;
  }
  return shares;
}

// target_modules for an adapter that has none of its own, or those of other modules: the last
// names, if every layer has them; else the full name of every module.
std::vector<std::string> PeftTargets(const BoundArtifact& adapter) {
  std::vector<std::string> names;
  bool whole = true;
  for (const auto& [name, share] : Shares(adapter, {})) {
    if (share.adapted > 0) names.push_back(name);
    whole &= share.adapted == 0 || share.adapted == share.all;
  }
  if (whole) return names;
  names.clear();
  for (size_t i = 0; i < adapter.model->params.size(); ++i)
    if (adapter.lora->pairs[i]) names.push_back(ModuleOf(adapter.model->params[i].name));
  return names;
}

// The names under which PEFT looks for a parameter that is saved whole: those in modules_to_save,
// and both names of a tied embedding that was trained as one.
std::vector<std::string> WholeNames(const BoundArtifact& adapter, const std::string& name) {
  const models::ModelConfig& model = adapter.model->config;
  const lora::Config& config = adapter.lora->config;
  std::vector<std::string> names;
  for (const models::Alias& alias : model.aliases)
    if (model.tied && alias.of == name && (config.ties || config.Saves(ModuleOf(alias.name))))
      names.push_back(alias.name);
  if (names.empty() || config.ties || config.Saves(ModuleOf(name))) names.push_back(name);
  return names;
}

}  // namespace

std::vector<TensorLayout> PeftTensors(const BoundArtifact& adapter) {
  std::vector<TensorLayout> tensors;
  const auto add = [&](std::string name, uint32_t param, bool transposed) {
    tensors.push_back(WholeTensor(std::move(name), 0, param, adapter.params[param].shape));
    if (transposed) TransposeStored(tensors.back());
  };
  for (size_t i = 0; i < adapter.model->params.size(); ++i) {
    const models::Param& param = adapter.model->params[i];
    const std::string module = std::string(kPrefix) + ModuleOf(param.name);
    const bool embedding = param.role == models::Role::kEmbedding;
    if (const auto& pair = adapter.lora->pairs[i]; pair && embedding) {
      add(module + ".lora_embedding_A", pair->b, true);
      add(module + ".lora_embedding_B", pair->a, true);
    } else if (pair) {
      add(module + ".lora_A.weight", pair->a, false);
      add(module + ".lora_B.weight", pair->b, false);
    }
    if (const auto& magnitude = adapter.lora->magnitudes[i])
      add(module + ".lora_magnitude_vector", *magnitude, false);
    if (const auto& rows = adapter.lora->rows[i])
      add(module + ".token_adapter.trainable_tokens_delta", rows->param, false);
    const auto& whole = adapter.lora->wholes[i];
    if (whole && adapter.lora->pairs[i])
      add(module + ".base_layer.weight", *whole, false);
    else if (whole)
      for (const std::string& name : WholeNames(adapter, param.name))
        add(std::string(kPrefix) + name, *whole, false);
  }
  return tensors;
}

std::string PeftConfig(const BoundArtifact& adapter, bool is_peft) {
  lora::Config config = adapter.lora->config;
  if (!is_peft) {
    config.targets = PeftTargets(adapter);
    config.targets_are_a_pattern = false;
    if (config.task_type.empty()) config.task_type = "CAUSAL_LM";
  }
  return lora::WriteConfig(config);
}

Result<std::string> NxdLoraConfig(const BoundArtifact& adapter, const nxd::Geometry& geometry) {
  const LoraParts& parts = *adapter.lora;
  if (parts.whole_count() > 0)
    return Unsupported(
               "{} parameters are in the adapter whole (modules_to_save, bias); how NxD's shards "
               "name them is not known",
               parts.whole_count())
        .in(parts.config_path);
  std::vector<std::string> targets;
  for (const auto& [name, share] : Shares(adapter, nxd::SharingOf(geometry))) {
    if (share.adapted == 0) continue;
    targets.push_back(name);
    if (share.adapted != share.all)
      return Unsupported("{} of {} modules {} are adapted; NxD adapts all of a name", share.adapted,
                         share.all, name)
          .in(parts.config_path)
          .member("target_modules");
  }
  lora::Config config = parts.config;
  config.excluded.clear();  // the adapted modules were counted
  config.layers.reset();
  return lora::WriteNxdConfig(config, targets).in(parts.config_path);
}

}  // namespace nxdkit::adapter
