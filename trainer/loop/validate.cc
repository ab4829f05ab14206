#include "trainer/loop/validate.h"

#include <algorithm>
#include <numeric>

#include "trainer/base/rng.h"

namespace nxdkit::trainer {
namespace {

// Validation draws other numbers than training at the same step.
constexpr uint32_t kValidation = 0x80000000u;

GenerateOptions Options(const Config& config, const RunParts& parts, int64_t step) {
  const RolloutConfig& rollout = config.worker.rollout;
  const ValOverrideConfig& over = rollout.val_override_config;
  GenerateOptions options;
  options.n = over.n.value_or(1);
  options.seed = static_cast<uint64_t>(over.seed.value_or(rollout.seed));
  options.step = kValidation | static_cast<uint32_t>(step);
  options.sampling.temperature = static_cast<float>(over.temperature.value_or(rollout.temperature));
  options.sampling.top_k = over.top_k.value_or(rollout.top_k);
  options.sampling.top_p = static_cast<float>(over.top_p.value_or(rollout.top_p));
  options.sampling.ignore_eos = over.ignore_eos.value_or(rollout.ignore_eos);
  options.sampling.max_tokens = over.max_tokens.value_or(config.data.max_response_length);
  options.sampling.stop_tokens = parts.stop_tokens;
  return options;
}

// The same ones every time, in an order that does not depend on the data's.
std::vector<Generation> Some(const std::vector<Sample>& samples, int64_t count) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const PhiloxKey key = MakeKey(42, RandomUse::kShuffle);
  const auto rank = [&](size_t i) {
    return std::pair(Philox({static_cast<uint32_t>(i), 0, 0, 0}, key)[0], i);
  };
  std::ranges::sort(order, [&](size_t a, size_t b) { return rank(a) < rank(b); });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max<int64_t>(0, count))));
  std::vector<Generation> out;
  for (const size_t i : order)
    out.push_back({samples[i].prompt_text, samples[i].response_text, samples[i].ground_truth,
                   samples[i].scores.at("overall")});
  return out;
}

}  // namespace

Result<ValidationResult> RunValidation(const Config& config, const RunPlan&, RunParts& parts,
                                       int64_t step, Metrics& metrics, const BatchHooks& hooks) {
  NXDKIT_ASSIGN(std::vector<Sample> samples,
                GenerateSamples(parts, parts.validation, Options(config, parts, step)));
  NXDKIT_TRY(hooks.begin("reward"));
  NXDKIT_TRY(ScoreSamples(parts.score_validation, samples));
  ValidationResult result;
  std::vector<int64_t> responses, prompts;
  int64_t cut = 0, full = 0;
  for (const Sample& sample : samples) {
    result.score += sample.scores.at("overall") / static_cast<double>(samples.size());
    for (const auto& [name, value] : sample.scores) metrics.Add("val/" + name + "_reward", value);
    responses.push_back(static_cast<int64_t>(sample.row.response.size()));
    prompts.push_back(static_cast<int64_t>(sample.row.prompt.size()));
    cut += sample.cut;
    full += prompts.back() == config.data.max_prompt_length;
  }
  metrics.Set("val/reward_score", result.score);
  AddLengths(metrics, "val_response_length", responses, cut);
  AddLengths(metrics, "val_prompt_length", prompts, full);
  result.samples = Some(samples, config.trainer.val_generations_to_log);
  return result;
}

}  // namespace nxdkit::trainer
