// adapter_config.json of a LoRA adapter: what its tensors mean. PEFT's keys, and those that NxD
// writes under the same names or embeds in its shards. Facts and sources: FORMAT.md beside this
// file.
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
  bool ties = false;  // ensure_weight_tying: the head of a tied model was trained as its embedding
  Bias bias = Bias::kNone;
  std::vector<std::string> targets;  // modules, by name or by the end of it
  // target_modules is a regular expression, or a word for a set: it does not say which modules are
  // in the file.
  bool targets_are_a_pattern = false;
  std::vector<std::string> excluded;
  bool excluded_is_a_pattern = false;
  std::optional<std::vector<int64_t>> layers;  // layers_to_transform
  std::vector<std::string> modules_to_save;
  std::vector<std::pair<ModulePattern, int64_t>> rank_pattern;
  std::vector<std::pair<ModulePattern, double>> alpha_pattern;
  // trainable_token_indices: a module, or the end of its name, and the rows that were trained.
  std::vector<std::pair<std::string, std::vector<int64_t>>> tokens;
  std::string base_model;  // "" when it is not said
  std::string task_type;   // "" as well
  double dropout = 0;

  // Of a module, by its full name: "model.layers.0.self_attn.q_proj".
  int64_t RankOf(std::string_view module) const;
  double AlphaOf(std::string_view module) const;
  // What B A is multiplied by: alpha / r, or alpha / sqrt(r).
  double ScaleOf(std::string_view module) const;
  // Whether target_modules, exclude_modules and layers_to_transform say that the module is adapted.
  bool Names(std::string_view module) const;
  // Whether modules_to_save names the module, or one that it is a part of.
  bool Saves(std::string_view module) const;
  // The rows of the module that were trained; nullptr: none by themselves.
  const std::vector<int64_t>* TokensOf(std::string_view module) const;
};

// Whether the name of `module`, or of one that it is a part of, ends in `name`, as PEFT reads
// modules_to_save: "model.layers.0.mlp.up_proj" is of "mlp", and every layernorm of "norm".
bool IsWithin(std::string_view module, std::string_view name);

// As PEFT writes it: its keys, sorted. Ends in a line feed.
std::string WriteConfig(const Config& config);

// The dictionary that NxD calls lora_config, as JSON text: sorted keys, a line feed at the end.
// kUnsupported naming what NxD has no key for: patterns, layers, excluded modules, DoRA, tokens.
Result<std::string> WriteNxdConfig(const Config& config, const std::vector<std::string>& targets);

}  // namespace nxdkit::lora
