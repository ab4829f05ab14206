#include "trainer/loop/reward_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace nxdkit::trainer {
namespace {

constexpr int64_t kFirstWarning = 5;
constexpr int64_t kLeastAtEnd = 2;

struct Range {
  double least = 0, most = 0;
  int64_t scores = 0;
  bool is_one() const { return least == most; }
  bool is_compared() const { return scores > 1; }  // a single score is equal to nothing
};

Range Joined(const Range& range, double score) {
  return {std::min(range.least, score), std::max(range.most, score), range.scores + 1};
}

// Advantages compare the responses to one prompt, or all of a step.
bool ComparesGroups(AdvantageEstimator estimator) {
  return estimator == AdvantageEstimator::kGrpo || estimator == AdvantageEstimator::kGrpoPassk ||
         estimator == AdvantageEstimator::kRloo;
}

bool IsWarningDue(int64_t steps) {
  int64_t at = kFirstWarning;
  while (at < steps) at *= 10;
  return at == steps;
}

}  // namespace

std::string RewardWatch::Take(std::span<const Sample> samples, Metrics& metrics) {
  if (samples.empty()) return "";
  std::map<uint64_t, Range> groups;
  const double first = samples.front().scores.at("overall");
  Range all{first, first, 0};
  bool by_baseline = false;
  for (const Sample& sample : samples) {
    const double score = sample.scores.at("overall");
    Range& group = groups.try_emplace(sample.group, Range{score, score, 0}).first->second;
    group = Joined(group, score);
    all = Joined(all, score);
    by_baseline |= score != sample.baseline;
  }
  int64_t compared = 0, equal = 0;
  for (const auto& [number, group] : groups) {
    compared += group.is_compared() ? 1 : 0;
    equal += group.is_compared() && group.is_one() ? 1 : 0;
  }
  if (compared > 0)
    metrics.Set("critic/score/equal_groups",
                static_cast<double>(equal) / static_cast<double>(compared));
  bool alike = ComparesGroups(estimator_) ? compared > 0 && equal == compared
                                          : all.is_compared() && all.is_one();
  if (estimator_ == AdvantageEstimator::kRemax) alike = !by_baseline;
  ++steps_;
  if (!alike) {
    alike_ = 0;
    told_ = false;
    return "";
  }
  least_ = alike_ == 0 ? all.least : std::min(least_, all.least);
  most_ = alike_ == 0 ? all.most : std::max(most_, all.most);
  if (!IsWarningDue(++alike_)) return "";
  told_ = true;
  return Warning();
}

std::string RewardWatch::AtEnd() const {
  const bool all = steps_ >= kLeastAtEnd && alike_ == steps_;
  return all && !told_ ? Warning() : "";
}

std::string RewardWatch::Warning() const {
  const std::string scores = least_ == most_ ? fmt::format("{:.6g}", least_)
                                             : fmt::format("{:.6g} to {:.6g}", least_, most_);
  const bool all = alike_ == steps_;
  const bool by_group = ComparesGroups(estimator_);
  return fmt::format(
      "nothing has been learnt from the rewards in {} {} steps{}: {} scored the same ({}){}; "
      "check the answers (data.answer_key), the reward, and whether responses differ "
      "(worker.rollout.temperature), unless the task is learnt",
      all ? "all" : "the last", alike_, all && resumed_ ? " of this process" : "",
      by_group ? "all responses to each prompt" : "all responses", scores,
      by_group && !kl_in_rewards_ ? ", so that all advantages are 0" : "");
}

}  // namespace nxdkit::trainer
