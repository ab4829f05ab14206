#include "trainer/report/chart_rows.h"

#include "lib/base/text.h"

namespace nxdkit::trainer {
namespace {

using Names = const std::string_view[];

constexpr Names kRewardNames = {"reward/*"};
constexpr Names kValidationNames = {"val/*"};
constexpr Names kScoreNames = {"critic/score/mean"};
constexpr Names kLengthNames = {"response_length/mean"};
constexpr Names kCutNames = {"response_length/clip_ratio", "prompt_length/clip_ratio"};
constexpr Names kKlNames = {"actor/kl_loss", "actor/kl_penalty", "actor/ppo_kl"};
constexpr Names kGapNames = {"rollout/log_prob_gap_mean", "rollout/log_prob_gap_max"};
constexpr Names kWeightsNames = {"rollout/is_mean", "rollout/is_min", "rollout/is_max"};
constexpr Names kWeightSharesNames = {"rollout/is_truncated", "rollout/is_effective"};
constexpr Names kProvedNames = {"sync/proved", "sync/not_covered"};
constexpr Names kEntropyNames = {"actor/entropy", "actor/entropy_loss"};
constexpr Names kGradientNames = {"actor/grad_norm", "critic/grad_norm"};
constexpr Names kRateNames = {"actor/lr", "critic/lr"};
constexpr Names kClippedNames = {"actor/pg_clipfrac_higher", "actor/pg_clipfrac_lower"};
constexpr Names kPolicyLossNames = {"actor/pg_loss"};
constexpr Names kCriticNames = {"critic/vf_loss", "critic/vf_explained_var", "critic/vf_clipfrac"};
constexpr Names kValuesNames = {"critic/values/mean", "critic/returns/mean", "critic/vpred_mean"};
constexpr Names kThroughputNames = {"perf/throughput"};
constexpr Names kMemoryNames = {"perf/cpu_memory_used_gb", "perf/max_memory_allocated_gb",
                                "perf/max_memory_reserved_gb"};
constexpr Names kUtilizationNames = {"perf/mfu_actor", "perf/mfu_critic"};

constexpr ChartRow kCharts[] = {
    {"Reward", "mean over the responses of the step", kRewardNames},
    {"Validation", "mean over the validation set", kValidationNames},
    {"Score", "before the KL penalty is subtracted", kScoreNames, true},
    {"Response length", "tokens", kLengthNames, true},
    {"At the length limit",
     "share from 0 to 1: responses that were cut, prompts of just that length", kCutNames},
    {"KL", "in nats: from the reference, and from the policy before the update", kKlNames},
    {"Engine against trainer", "in nats: distance of their log-probs for the same tokens",
     kGapNames},
    {"Importance weights", "of the engine's tokens (algorithm.rollout_is)", kWeightsNames},
    {"Importance sampling", "shares from 0 to 1: tokens that were cut, effective sample size",
     kWeightSharesNames},
    {"Proved weights",
     "digests of the engine's memory that match the prediction, and those it cannot show",
     kProvedNames},
    {"Entropy", "in nats: of the policy, and of the sampled tokens", kEntropyNames},
    {"Gradient norm", "before clipping", kGradientNames},
    {"Learning rate", "", kRateNames},
    {"Clipped tokens", "share from 0 to 1: tokens whose ratio left the clip range", kClippedNames},
    {"Policy loss", "near 0 is normal when each batch is used once", kPolicyLossNames},
    {"Critic", "its loss; shares: variance of the returns explained, tokens clipped", kCriticNames},
    {"Values", "the critic's values, and the actual returns", kValuesNames},
    {"Throughput", "tokens per second and device", kThroughputNames},
    {"Memory", "GB as EasyR1 counts them, 2^30 bytes: resident, now and at most", kMemoryNames},
    {"Model FLOPs utilization", "share of the peak, from 0 to 1", kUtilizationNames},
};

struct UnitRow {
  std::string_view pattern;
  std::string_view unit;
};

// The first that matches counts.
constexpr UnitRow kUnits[] = {
    {"timing_s/*", "s"},
    {"timing_per_token_ms/gen", "ms per response token"},
    {"timing_per_token_ms/reward", "ms per response token"},
    {"timing_per_token_ms/*", "ms per token"},
    {"perf/time_per_step", "s"},
    {"perf/throughput", "tokens per s and device"},
    {"perf/*_gb", "2^30 bytes"},
    {"perf/*_bytes", "bytes"},
    {"perf/*tokens", "tokens"},
    {"perf/mfu_*", "share"},
    {"*/clip_ratio", "share"},
    {"*clipfrac*", "share"},
    {"critic/score/equal_groups", "share"},
    {"critic/vf_explained_var", "share"},
    {"rollout/is_truncated", "share"},
    {"rollout/is_effective", "share"},
    {"*response_length/*", "tokens"},
    {"*prompt_length/*", "tokens"},
    {"global_seqlen/*", "tokens"},
    {"actor/entropy*", "nats"},
    {"actor/kl_loss", "nats"},
    {"actor/kl_penalty", "nats"},
    {"actor/ppo_kl", "nats"},
    {"rollout/kl", "nats"},
    {"rollout/log_prob_gap_*", "nats"},
};

}  // namespace

std::span<const ChartRow> ChartRows() { return kCharts; }

std::string_view UnitOf(std::string_view name) {
  for (const UnitRow& row : kUnits)
    if (GlobMatch(row.pattern, name)) return row.unit;
  return "";
}

}  // namespace nxdkit::trainer
