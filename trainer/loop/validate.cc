#include "trainer/loop/validate.h"

#include <algorithm>
#include <numeric>

#include "trainer/base/rng.h"
#include "trainer/loop/step.h"

namespace nxdkit::trainer {
namespace {

// Separates the random draws of validation from those of training at the same step.
constexpr uint32_t kValidation = 0x80000000u;

GenerateOptions Options(const SampleMaking& making, int64_t step) {
  const RolloutConfig& rollout = making.run.config.worker.rollout;
  const ValOverrideConfig& over = rollout.val_override_config;
  GenerateOptions options = TrainingOptions(making, step);
  options.n = over.n.value_or(1);
  options.seed = static_cast<uint64_t>(over.seed.value_or(rollout.seed));
  options.step |= kValidation;
  SamplingParams& sampling = options.sampling;
  sampling.temperature = static_cast<float>(over.temperature.value_or(rollout.temperature));
  sampling.top_k = over.top_k.value_or(sampling.top_k);
  sampling.top_p = static_cast<float>(over.top_p.value_or(rollout.top_p));
  sampling.log_probs = false;
  sampling.ignore_eos = over.ignore_eos.value_or(sampling.ignore_eos);
  sampling.max_tokens = over.max_tokens.value_or(sampling.max_tokens);
  return options;
}

// The same samples every time, in an order that does not depend on the data's.
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

Result<ValidationResult> RunValidation(const SampleMaking& making, int64_t step) {
  const auto& [run, data, engines, metrics, begin] = making;
  NXDKIT_ASSIGN(std::vector<Sample> samples,
                GenerateSamples(making, data.validation, Options(making, step)));
  NXDKIT_TRY(begin("reward"));
  NXDKIT_TRY(ScoreSamples(data.score_validation, samples));
  ValidationResult result;
  for (const Sample& sample : samples) {
    result.score += sample.scores.at("overall") / static_cast<double>(samples.size());
    for (const auto& [name, value] : sample.scores) metrics.Add("val/" + name + "_reward", value);
  }
  metrics.Set("val/reward_score", result.score);
  AddSampleLengths(run.config, samples, "val_", metrics);
  result.samples = Some(samples, run.config.trainer.val_generations_to_log);
  return result;
}

}  // namespace nxdkit::trainer
