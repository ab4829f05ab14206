#include "formats/kinds/rollout/facts_rollout.h"

#include "formats/kinds/facts.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"
#include "formats/rollout/cpu_plan.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

std::string DescriptionOf(const std::optional<rollout::NeuronConfig>& config) {
  if (!config) return "rank shards of a rollout bundle, without neuron_config.json";
  return config->flavor == rollout::Flavor::kNxdi ? "rollout bundle of NxD Inference"
                                                  : "rollout bundle of optimum-neuron";
}

void AddBundleKeys(Json& layout, const RolloutFacts& rollout) {
  layout["tp"] = rollout.ranks;
  layout["first_rank"] = rollout.first_rank;
  if (const auto& config = rollout.config) {
    layout["tp"] = config->tp;
    layout["flavor"] = rollout::FlavorName(config->flavor);
    layout["bs"] = config->batch_size;
    layout["seq"] = config->sequence_length;
    layout["dtype"] = config->torch_dtype;
    layout["fused_qkv"] = config->fused_qkv;
  }
  if (!rollout.heads) return;
  layout["gqa_strategy"] = models::GqaStrategyName(rollout.heads->strategy);
  layout["padded_heads"] = rollout.heads->padded_query;
  layout["padded_kv_heads"] = rollout.heads->padded_kv;
}

std::string HeadsText(const models::RolloutHeads& heads, const models::ModelConfig& config) {
  const auto padded = [](const char* what, int64_t stored, int64_t real) {
    return stored == real ? fmt::format("{} {}", real, what)
                          : fmt::format("{} {} stored as {}", real, what, stored);
  };
  return fmt::format("{}, {}, {}", models::GqaStrategyName(heads.strategy),
                     padded("query heads", heads.padded_query, config.heads),
                     padded("key/value heads", heads.padded_kv, config.kv_heads));
}

std::string ShardsText(const RolloutFacts& rollout) {
  if (rollout.ranks > 0)
    return fmt::format("ranks {} to {}", rollout.first_rank,
                       rollout.first_rank + rollout.ranks - 1);
  if (!rollout.config || rollout.config->checkpoint_id.empty()) return "none";
  return fmt::format("none; they are loaded from {}", rollout.config->checkpoint_id);
}

// The versions and settings in neuron_config.json, other than the engine's.
void AddVersions(Facts& rows, const rollout::NeuronConfig& config) {
  const auto text = [](const auto& version) {
    return Short(version.first) + " " + Short(version.second);
  };
  rows.Add(
      config.versions.empty() ? "" : "versions", Joined(config.versions, text), "versions",
      ArrayOf(config.versions, [](const auto& version) -> Json {
        return {{"key", EscapeControl(version.first)}, {"value", EscapeControl(version.second)}};
      }));
  if (!config.unsupported.empty())
    rows.Line("settings", Joined(config.unsupported, [](const std::string& s) { return s; }));
}

void AddWeightsVersion(Facts& rows, const std::optional<rollout::WeightsVersion>& weights) {
  if (!weights) return rows.Key("weights_version", {});
  rows.Add("weights", fmt::format("version {}, {}", weights->serial, Short(weights->label)),
           "weights_version",
           {{"serial", weights->serial}, {"label", EscapeControl(weights->label)}});
}

}  // namespace

Status DescribeRollout(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_TRY(SurveyWhole(survey, kRollout, path, hints));
  const rollout::Bundle& bundle = *BundleOf(survey.artifact);
  const auto facts = std::make_shared<RolloutFacts>();
  facts->config = bundle.config;
  facts->weights = bundle.version;
  facts->first_rank = bundle.first_rank;
  facts->ranks = static_cast<int64_t>(bundle.shards.size());
  std::vector<std::string> names = bundle.blobs;
  if (bundle.has_cpu_plan) names.emplace_back(rollout::kCpuPlanFile);
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(const uint64_t bytes, BytesOfFile(JoinPath(bundle.folder, name)));
    facts->blobs.push_back({name, bytes});
  }
  for (const std::string& blob : bundle.blobs)
    survey.blobs.push_back(JoinPath(bundle.folder, blob));
  survey.facts = facts;
  survey.description = DescriptionOf(bundle.config);
  return OkStatus();
}

void DescribeRolloutLayout(Survey& survey, const BoundArtifact& bound, const InputHints&) {
  const models::ModelConfig& config = bound.model->config;
  static_cast<RolloutFacts&>(*survey.facts).heads =
      models::RolloutPlacement(config.heads, config.kv_heads, RolloutGeometryOf(bound)->tp);
}

void AddRolloutFacts(KindFacts& facts, const Survey& survey) {
  facts.LayoutKeys({"flavor", "bs", "seq", "dtype", "fused_qkv", "first_rank", "gqa_strategy",
                    "padded_heads", "padded_kv_heads"});
  const RolloutFacts* known = FactsAs<RolloutFacts>(survey);
  const RolloutFacts rollout = known ? *known : RolloutFacts();
  const rollout::NeuronConfig config = rollout.config.value_or(rollout::NeuronConfig());
  if (known) AddBundleKeys(facts.layout, rollout);
  Facts& rows = facts.files;
  if (rollout.config)
    rows.Line("engine", fmt::format("tp {}, batch size {}, sequence length {}, {}, q/k/v {}",
                                    config.tp, config.batch_size, config.sequence_length,
                                    config.torch_dtype, config.fused_qkv ? "fused" : "separate"));
  rows.Key("blobs", ItemsJson(rollout.blobs));
  AddVersions(rows, config);
  if (rollout.heads) rows.Line("heads", HeadsText(*rollout.heads, *survey.artifact.config));
  if (known) rows.Line("shards", ShardsText(rollout));
  AddWeightsVersion(rows, rollout.weights);
  if (known)
    rows.Line("blob", rollout.blobs.empty() ? "missing: no compiled model.pt"
                                            : Joined(rollout.blobs, ItemText));
}

}  // namespace nxdkit::kinds
