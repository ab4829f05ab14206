#include "trainer/loop/make_batch.h"

#include <fmt/core.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/algo/advantage.h"
#include "trainer/algo/selection.h"

namespace nxdkit::trainer {
namespace {

std::string NamesOf(const Scores& scores) {
  std::string names;
  for (const auto& [name, value] : scores)
    names += (names.empty() ? "" : ", ") + EscapeControl(name);
  return names;
}

class BatchMaker {
 public:
  BatchMaker(const LoopContext& run, int64_t step, int64_t& prompts_seen, Metrics& metrics,
             const BeginPhase& begin)
      : run_(run),
        prompts_seen_(prompts_seen),
        metrics_(metrics),
        begin_(begin),
        options_(TrainingOptions(run, step)) {}

  // One call of the engines.
  Result<std::vector<Sample>> More() {
    NXDKIT_TRY(begin_("gen"));
    NXDKIT_ASSIGN(const std::vector<Prompt> prompts,
                  run_.parts.train->Next(run_.plan.prompts_per_call));
    options_.first_prompt = static_cast<uint32_t>(made_);
    NXDKIT_ASSIGN(std::vector<Sample> samples, GenerateSamples(run_.parts, prompts, options_));
    for (Sample& sample : samples) sample.group += static_cast<uint64_t>(prompts_seen_);
    NXDKIT_TRY(begin_("reward"));
    NXDKIT_TRY(ScoreSamples(run_.parts.score, samples));
    if (run_.config.algorithm.adv_estimator == "remax") NXDKIT_TRY(AddBaselines(prompts, samples));
    for (const Sample& sample : samples)
      for (const auto& [name, value] : sample.scores) metrics_.Add("reward/" + name, value);
    prompts_seen_ += std::ssize(prompts);
    made_ += std::ssize(prompts);
    if (run_.config.algorithm.online_filtering) return Filter(std::move(samples));
    return samples;
  }

 private:
  // The score of each prompt's greedy response.
  Status AddBaselines(const std::vector<Prompt>& prompts, std::vector<Sample>& samples) {
    GenerateOptions greedy = options_;
    greedy.n = 1;
    greedy.sampling.temperature = 0;
    greedy.sampling.top_k = -1;
    greedy.sampling.top_p = 1;
    NXDKIT_TRY(begin_("gen"));
    NXDKIT_ASSIGN(std::vector<Sample> best, GenerateSamples(run_.parts, prompts, greedy));
    NXDKIT_TRY(begin_("reward"));
    NXDKIT_TRY(ScoreSamples(run_.parts.score, best));
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i].baseline = best[i / static_cast<size_t>(options_.n)].scores.at("overall");
    return OkStatus();
  }

  Result<std::vector<Sample>> Filter(std::vector<Sample> samples) const {
    const AlgorithmConfig& algorithm = run_.config.algorithm;
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

  const LoopContext& run_;
  int64_t& prompts_seen_;
  Metrics& metrics_;
  const BeginPhase& begin_;
  GenerateOptions options_;
  int64_t made_ = 0;  // prompts of this step
};

std::string Excerpt(std::string_view text) {
  constexpr size_t kMost = 60;
  return EscapeControl(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

// The reward is the user's: what it was asked, and what can be done.
Error WithAdvice(const Error& error, const Sample* asked) {
  if (error.code() == Errc::kInterrupted) return error;
  std::string hint = error.code() == Errc::kLimit
                         ? "make worker.reward.reward_function faster, or raise timeout_s in "
                           "worker.reward.reward_function_kwargs"
                         : "fix worker.reward.reward_function";
  hint += "; the same command continues from the last checkpoint";
  if (asked)
    hint += fmt::format(". It was asked: prompt \"{}\", response \"{}\", ground truth \"{}\"",
                        Excerpt(asked->prompt_text), Excerpt(asked->response_text),
                        Excerpt(asked->ground_truth));
  return Error(error).hint(hint);
}

}  // namespace

GenerateOptions TrainingOptions(const LoopContext& run, int64_t step) {
  const RolloutConfig& rollout = run.config.worker.rollout;
  return {.sampling = {.temperature = static_cast<float>(rollout.temperature),
                       .top_k = rollout.top_k,
                       .top_p = static_cast<float>(rollout.top_p),
                       .log_probs = run.parts.generator_log_probs,
                       .ignore_eos = rollout.ignore_eos,
                       .max_tokens = run.config.data.max_response_length,
                       .stop_tokens = run.parts.stop_tokens},
          .n = rollout.n,
          .seed = static_cast<uint64_t>(rollout.seed),
          .step = static_cast<uint32_t>(step)};
}

Result<std::vector<Sample>> GenerateSamples(RunParts& parts, const std::vector<Prompt>& prompts,
                                            const GenerateOptions& options) {
  std::vector<RolloutRequest> requests;
  for (size_t p = 0; p < prompts.size(); ++p)
    for (int64_t j = 0; j < options.n; ++j)
      requests.push_back({prompts[p].ids, options.sampling, options.seed, options.step,
                          options.first_prompt + static_cast<uint32_t>(p),
                          static_cast<uint32_t>(j)});
  NXDKIT_ASSIGN(std::vector<RolloutResponse> responses, parts.generator->Generate(requests));
  NXDKIT_CHECK(responses.size() == requests.size());
  std::vector<Sample> samples(responses.size());
  for (size_t i = 0; i < responses.size(); ++i) {
    const size_t p = i / static_cast<size_t>(options.n);
    Sample& sample = samples[i];
    sample.row = {prompts[p].ids, std::move(responses[i].ids)};
    sample.group = p;
    sample.prompt_text = prompts[p].text;
    sample.response_text = parts.decode(sample.row.response);
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

Result<std::vector<Sample>> MakeBatch(const LoopContext& run, int64_t step, int64_t& prompts_seen,
                                      Metrics& metrics, const BeginPhase& begin) {
  const size_t wanted = static_cast<size_t>(run.plan.sequences);
  const int64_t tries = run.config.trainer.max_try_make_batch;
  BatchMaker maker(run, step, prompts_seen, metrics, begin);
  std::vector<Sample> batch;
  for (int64_t made = 1;; ++made) {
    NXDKIT_ASSIGN(std::vector<Sample> more, maker.More());
    std::move(more.begin(), more.end(), std::back_inserter(batch));
    if (batch.size() >= wanted) break;
    if (tries > 0 && made >= tries)
      return Error(Errc::kFindings,
                   fmt::format("after {} calls of the engine {} of {} samples are kept by "
                               "algorithm.online_filtering",
                               made, batch.size(), wanted))
          .hint(
              "all samples of the other prompts score alike; other data, another temperature, or "
              "a larger trainer.max_try_make_batch may help");
    run.Note(fmt::format("step {}: {} of {} samples kept, generating more (try {})", step,
                         batch.size(), wanted, made + 1));
  }
  batch.resize(wanted);  // groups stay whole: both are multiples of n
  return batch;
}

}  // namespace nxdkit::trainer
