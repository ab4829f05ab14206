#include "formats/lora/config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/models/model.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"

namespace nxdkit::lora {
namespace {

constexpr std::array<std::string_view, 3> kBiasNames = {"none", "all", "lora_only"};

// The first matching key counts, as in PEFT.
template <typename T>
T ByPattern(const std::vector<std::pair<ModulePattern, T>>& pattern, std::string_view module,
            T otherwise) {
  const auto it =
      std::ranges::find_if(pattern, [&](const auto& item) { return item.first.Fits(module); });
  return it == pattern.end() ? otherwise : it->second;
}

Json ListOrNull(const std::vector<std::string>& names) {
  return names.empty() ? Json() : Json(names);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

// 16 and not 16.0, as PEFT gets it from its callers.
Json Number(double value) {
  constexpr double kExact = 1e15;
  if (value == std::floor(value) && std::abs(value) < kExact) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

std::string_view BiasName(Bias bias) { return kBiasNames[static_cast<size_t>(bias)]; }

bool IsWithin(std::string_view module, std::string_view name) {
  for (std::string_view part = module;; part = part.substr(0, part.rfind('.'))) {
    if (part.ends_with(name)) return true;
    if (part.find('.') == std::string_view::npos) return false;
  }
}

int64_t Config::RankOf(std::string_view module) const {
  return ByPattern(rank_pattern, module, rank);
}

double Config::AlphaOf(std::string_view module) const {
  return ByPattern(alpha_pattern, module, alpha);
}

double Config::ScaleOf(std::string_view module) const {
  const double r = static_cast<double>(RankOf(module));
  return AlphaOf(module) / (rslora ? std::sqrt(r) : r);
}

bool Config::Names(std::string_view module) const {
  const auto ends = [&](const std::string& name) { return EndsIn(module, name); };
  if (std::ranges::any_of(excluded, ends) || std::ranges::none_of(targets, ends)) return false;
  if (!layers) return true;
  return std::ranges::find(*layers, models::LayerOf(module)) != layers->end();
}

bool Config::Saves(std::string_view module) const {
  return std::ranges::any_of(modules_to_save,
                             [&](const std::string& name) { return IsWithin(module, name); });
}

const std::vector<int64_t>* Config::TokensOf(std::string_view module) const {
  const auto it =
      std::ranges::find_if(tokens, [&](const auto& item) { return EndsIn(module, item.first); });
  return it == tokens.end() ? nullptr : &it->second;
}

std::string WriteConfig(const Config& config) {
  Json ranks = Json::object();
  for (const auto& [pattern, rank] : config.rank_pattern) ranks[pattern.key()] = rank;
  Json alphas = Json::object();
  for (const auto& [pattern, alpha] : config.alpha_pattern) alphas[pattern.key()] = Number(alpha);
  Json tokens;
  for (const auto& [module, rows] : config.tokens) tokens[module] = rows;
  const bool one = config.targets_are_a_pattern && config.targets.size() == 1;
  const bool one_excluded = config.excluded_is_a_pattern && config.excluded.size() == 1;
  Json json = {{"alpha_pattern", alphas},
               {"auto_mapping", nullptr},
               {"base_model_name_or_path", TextOrNull(config.base_model)},
               {"bias", BiasName(config.bias)},
               {"exclude_modules",
                one_excluded ? Json(config.excluded.front()) : ListOrNull(config.excluded)},
               {"fan_in_fan_out", false},
               {"inference_mode", true},
               {"init_lora_weights", true},
               {"layers_pattern", nullptr},
               {"layers_to_transform", config.layers ? Json(*config.layers) : Json()},
               {"lora_alpha", Number(config.alpha)},
               {"lora_dropout", config.dropout},
               {"modules_to_save", ListOrNull(config.modules_to_save)},
               {"peft_type", "LORA"},
               {"r", config.rank},
               {"rank_pattern", ranks},
               {"revision", nullptr},
               {"target_modules", one ? Json(config.targets.front()) : Json(config.targets)},
               {"task_type", TextOrNull(config.task_type)},
               {"use_dora", config.dora},
               {"use_rslora", config.rslora}};
  if (config.ties) json["ensure_weight_tying"] = true;
  if (!config.tokens.empty()) json["trainable_token_indices"] = tokens;
  return DumpPython(json) + "\n";
}

Result<std::string> WriteNxdConfig(const Config& config, const std::vector<std::string>& targets) {
  const std::pair<const char*, bool> without[] = {
      {"rank_pattern", !config.rank_pattern.empty()},
      {"alpha_pattern", !config.alpha_pattern.empty()},
      {"layers_to_transform", config.layers.has_value()},
      {"exclude_modules", !config.excluded.empty()},
      {"use_dora", config.dora},
      {"trainable_token_indices", !config.tokens.empty()}};
  for (const auto& [key, used] : without)
    if (used) return Unsupported("NxD's LoRA configuration has no such option").member(key);
  const Json json = {{"bias", BiasName(config.bias)},
                     {"init_lora_weights", "default"},
                     {"lora_alpha", Number(config.alpha)},
                     {"lora_dropout", config.dropout},
                     {"lora_rank", config.rank},
                     {"merge_lora", false},
                     {"modules_to_save", ListOrNull(config.modules_to_save)},
                     {"r", config.rank},
                     {"save_lora_base", false},
                     {"save_lora_config_adapter", true},
                     {"target_modules", targets},
                     {"use_rslora", config.rslora}};
  return DumpPython(json) + "\n";
}

}  // namespace nxdkit::lora
