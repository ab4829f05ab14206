// adapter_config.json of a LoRA adapter: the meaning of its tensors. PEFT's keys, and those that
// NxD writes under the same names or embeds in its shards. Facts and sources: FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/lora/module_pattern.h"
#include "lib/base/error.h"

namespace nxdkit::lora {

enum class Bias : uint8_t { kNone, kAll, kLoraOnly };
std::string_view BiasName(Bias bias);  // "none", "all", "lora_only"

struct Config {
  int64_t rank = 0;
  double alpha = 0;
  bool rslora = false;
  bool dora = false;  // each module has a magnitude vector
  bool ties = false;  // ensure_weight_tying: a tied model's head was trained as its embedding
  Bias bias = Bias::kNone;
  std::vector<std::string> targets;  // modules, by name or by the end of the name
  // target_modules is a regular expression, or a word for a set: it does not list the modules in
  // the file.
  bool targets_are_a_pattern = false;
  std::vector<std::string> excluded;
  bool excluded_is_a_pattern = false;
  std::optional<std::vector<int64_t>> layers;  // layers_to_transform
  std::vector<std::string> modules_to_save;
  std::vector<std::pair<ModulePattern, int64_t>> rank_pattern;
  std::vector<std::pair<ModulePattern, double>> alpha_pattern;
  // trainable_token_indices: a module, or the end of its name, and the trained rows.
  std::vector<std::pair<std::string, std::vector<int64_t>>> tokens;
  std::string base_model;  // "" if not recorded
  std::string task_type;   // likewise
  double dropout = 0;

  // The rank of a module, by its full name: "model.layers.0.self_attn.q_proj".
  int64_t RankOf(std::string_view module) const;
  double AlphaOf(std::string_view module) const;
  // The factor of B A: alpha / r, or alpha / sqrt(r).
  double ScaleOf(std::string_view module) const;
  // Whether the module is adapted according to target_modules, exclude_modules and
  // layers_to_transform.
  bool Names(std::string_view module) const;
  // Whether modules_to_save names the module, or one that contains it.
  bool Saves(std::string_view module) const;
  // The trained rows of the module; nullptr if rows were not trained separately.
  const std::vector<int64_t>* TokensOf(std::string_view module) const;
};

// Whether the name of `module`, or of one that contains it, ends in `name`, as PEFT reads
// modules_to_save: "model.layers.0.mlp.up_proj" is within "mlp", and every layernorm within "norm".
bool IsWithin(std::string_view module, std::string_view name);

// The configuration as PEFT writes it: its keys, sorted. Ends in a line feed.
std::string WriteConfig(const Config& config);

// The dictionary that NxD calls lora_config, as JSON text: sorted keys, a line feed at the end.
// kUnsupported naming settings without a key in NxD: patterns, layers, excluded modules, DoRA,
// tokens.
Result<std::string> WriteNxdConfig(const Config& config, const std::vector<std::string>& targets);

}  // namespace nxdkit::lora
