#include "trainer/loop/make_batch.h"

#include <fmt/core.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/algo/selection.h"

namespace nxdkit::trainer {
namespace {

std::string NamesOf(const Scores& scores) {
  std::string names;
  for (const auto& [name, value] : scores)
    names += (names.empty() ? "" : ", ") + EscapeControl(name);
  return names;
}

// The score of each prompt's greedy response.
Status AddBaselines(const SampleMaking& making, const std::vector<Prompt>& prompts,
                    const GenerateOptions& options, std::vector<Sample>& samples) {
  GenerateOptions greedy = options;
  greedy.n = 1;
  greedy.sampling.temperature = 0;
  greedy.sampling.top_k = -1;
  greedy.sampling.top_p = 1;
  NXDKIT_TRY(making.begin("gen"));
  NXDKIT_ASSIGN(std::vector<Sample> best, GenerateSamples(making, prompts, greedy));
  NXDKIT_TRY(making.begin("reward"));
  NXDKIT_TRY(ScoreSamples(making.data.score, best));
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i].baseline = best[i / static_cast<size_t>(options.n)].scores.at("overall");
  return OkStatus();
}

Result<std::vector<Sample>> FilterSamples(const AlgorithmConfig& algorithm,
                                          std::vector<Sample> samples) {
  std::vector<uint64_t> groups;
  std::vector<double> scores;
  for (const Sample& sample : samples) {
    const auto score = sample.scores.find(algorithm.filter_key);
    if (score == sample.scores.end())
      return BadUsage("the reward gives no {}; it gives {}", EscapeControl(algorithm.filter_key),
                      NamesOf(sample.scores))
          .member("algorithm.filter_key");
    groups.push_back(sample.group);
    scores.push_back(score->second);
  }
  NXDKIT_ASSIGN(const std::vector<size_t> kept,
                FilterGroups(groups, scores, algorithm.filter_low, algorithm.filter_high));
  std::vector<Sample> out;
  for (const size_t row : kept) out.push_back(std::move(samples[row]));
  return out;
}

// One call of the engines. `options` and `prompts_seen` advance to the prompts of the next call.
Result<std::vector<Sample>> CallEngines(const SampleMaking& making, GenerateOptions& options,
                                        int64_t& prompts_seen) {
  const AlgorithmConfig& algorithm = making.run.config.algorithm;
  NXDKIT_TRY(making.begin("gen"));
  NXDKIT_ASSIGN(const std::vector<Prompt> prompts,
                making.data.train->Next(making.run.plan.prompts_per_call));
  NXDKIT_ASSIGN(std::vector<Sample> samples, GenerateSamples(making, prompts, options));
  for (Sample& sample : samples) sample.group += static_cast<uint64_t>(prompts_seen);
  NXDKIT_TRY(making.begin("reward"));
  NXDKIT_TRY(ScoreSamples(making.data.score, samples));
  if (algorithm.adv_estimator == "remax")
    NXDKIT_TRY(AddBaselines(making, prompts, options, samples));
  for (const Sample& sample : samples)
    for (const auto& [name, value] : sample.scores) making.metrics.Add("reward/" + name, value);
  prompts_seen += std::ssize(prompts);
  options.first_prompt += static_cast<uint32_t>(prompts.size());
  if (algorithm.online_filtering) return FilterSamples(algorithm, std::move(samples));
  return samples;
}

std::string Excerpt(std::string_view text) {
  constexpr size_t kMost = 60;
  return EscapeControl(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

// The reward is the user's code: the error says what was asked of it, and gives advice.
Error WithAdvice(const Error& error, const Sample* asked) {
  if (error.code() == Errc::kInterrupted) return error;
  std::string hint = error.code() == Errc::kLimit
                         ? "make worker.reward.reward_function faster, or raise timeout_s in "
                           "worker.reward.reward_function_kwargs"
                         : "fix worker.reward.reward_function";
  hint += "; the same command continues from the last checkpoint";
  if (asked)
    hint += fmt::format(". The sample was: prompt \"{}\", response \"{}\", ground truth \"{}\"",
                        Excerpt(asked->prompt_text), Excerpt(asked->response_text),
                        Excerpt(asked->ground_truth));
  return Error(error).hint(hint);
}

}  // namespace

GenerateOptions TrainingOptions(const SampleMaking& making, int64_t step) {
  const Config& config = making.run.config;
  const RolloutConfig& rollout = config.worker.rollout;
  return {.sampling = {.temperature = static_cast<float>(rollout.temperature),
                       .top_k = rollout.top_k,
                       .top_p = static_cast<float>(rollout.top_p),
                       .log_probs = making.engines.shape.tells_log_probs,
                       .ignore_eos = rollout.ignore_eos,
                       .max_tokens = config.data.max_response_length,
                       .stop_tokens = making.data.stop_tokens},
          .n = rollout.n,
          .seed = static_cast<uint64_t>(rollout.seed),
          .step = static_cast<uint32_t>(step)};
}

Result<std::vector<Sample>> GenerateSamples(const SampleMaking& making,
                                            const std::vector<Prompt>& prompts,
                                            const GenerateOptions& options) {
  std::vector<RolloutRequest> requests;
  for (size_t p = 0; p < prompts.size(); ++p)
    for (int64_t j = 0; j < options.n; ++j)
      requests.push_back({prompts[p].ids, options.sampling, options.seed, options.step,
                          options.first_prompt + static_cast<uint32_t>(p),
                          static_cast<uint32_t>(j)});
  NXDKIT_ASSIGN(std::vector<RolloutResponse> responses,
                making.engines.generator->Generate(requests));
  NXDKIT_CHECK(responses.size() == requests.size());
  std::vector<Sample> samples(responses.size());
  for (size_t i = 0; i < responses.size(); ++i) {
    const size_t p = i / static_cast<size_t>(options.n);
    Sample& sample = samples[i];
    sample.row = {prompts[p].ids, std::move(responses[i].ids)};
    sample.group = p;
    sample.prompt_text = prompts[p].text;
    sample.response_text = making.data.decode(sample.row.response);
    sample.ground_truth = prompts[p].ground_truth;
    sample.cut = responses[i].reason == FinishReason::kLength;
    sample.engine_log_probs = std::move(responses[i].log_probs);
  }
  return samples;
}

Status ScoreSamples(const Scorer& score, std::vector<Sample>& samples) {
  std::vector<RewardSample> asked;
  for (const Sample& sample : samples)
    asked.push_back({sample.response_text, static_cast<int64_t>(sample.response_tokens()),
                     sample.ground_truth});
  std::optional<size_t> bad;
  auto scores = score(asked, bad);
  if (!scores.ok())
    return WithAdvice(scores.error(), bad && *bad < samples.size() ? &samples[*bad] : nullptr);
  NXDKIT_CHECK(scores->size() == samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].scores = std::move((*scores)[i]);
    const auto overall = samples[i].scores.find("overall");
    if (overall == samples[i].scores.end() || !std::isfinite(overall->second))
      return WithAdvice(
          Corrupt("it has no finite score \"overall\"").member(fmt::format("sample {}", i)),
          &samples[i]);
    samples[i].rewards.assign(samples[i].response_tokens(), 0);
    samples[i].rewards.back() = static_cast<float>(overall->second);
  }
  return OkStatus();
}

Result<std::vector<Sample>> MakeBatch(const SampleMaking& making, int64_t step,
                                      int64_t& prompts_seen) {
  const LoopContext& run = making.run;
  const size_t wanted = static_cast<size_t>(run.plan.sequences);
  const int64_t tries = run.config.trainer.max_try_make_batch;
  GenerateOptions options = TrainingOptions(making, step);
  std::vector<Sample> batch;
  for (int64_t made = 1;; ++made) {
    NXDKIT_ASSIGN(std::vector<Sample> more, CallEngines(making, options, prompts_seen));
    std::move(more.begin(), more.end(), std::back_inserter(batch));
    if (batch.size() >= wanted) break;
    if (tries > 0 && made >= tries)
      return Error(Errc::kFindings,
                   fmt::format("after {} calls of the engine {} of {} samples are kept by "
                               "algorithm.online_filtering",
                               made, batch.size(), wanted))
          .hint(
              "all samples of the other prompts have the same score; other data, another "
              "temperature, or a larger trainer.max_try_make_batch may help");
    run.Note(fmt::format("step {}: {} of {} samples kept, generating more (try {})", step,
                         batch.size(), wanted, made + 1));
  }
  batch.resize(wanted);  // groups stay whole: both are multiples of n
  return batch;
}

}  // namespace nxdkit::trainer
