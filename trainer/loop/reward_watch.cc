#include "trainer/loop/reward_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace nxdkit::trainer {
namespace {

constexpr int64_t kFirstTold = 5;
constexpr int64_t kLeastAtEnd = 2;

struct Range {
  double least = 0, most = 0;
  bool is_one() const { return least == most; }
};

Range Joined(const Range& range, double score) {
  return {std::min(range.least, score), std::max(range.most, score)};
}

// Advantages compare the responses to one prompt, or all of a step.
bool ComparesGroups(AdvantageEstimator estimator) {
  return estimator == AdvantageEstimator::kGrpo || estimator == AdvantageEstimator::kGrpoPassk ||
         estimator == AdvantageEstimator::kRloo;
}

bool IsTimeToTell(int64_t steps) {
  int64_t at = kFirstTold;
  while (at < steps) at *= 10;
  return at == steps;
}

}  // namespace

std::string RewardWatch::Take(std::span<const Sample> samples, Metrics& metrics) {
  if (samples.empty()) return "";
  std::map<uint64_t, Range> groups;
  const double first = samples.front().scores.at("overall");
  Range all{first, first};
  bool by_baseline = false;
  for (const Sample& sample : samples) {
    const double score = sample.scores.at("overall");
    Range& group = groups.try_emplace(sample.group, Range{score, score}).first->second;
    group = Joined(group, score);
    all = Joined(all, score);
    by_baseline |= score != sample.baseline;
  }
  const auto equal =
      std::ranges::count_if(groups, [](const auto& group) { return group.second.is_one(); });
  metrics.Set("critic/score/equal_groups",
              static_cast<double>(equal) / static_cast<double>(groups.size()));
  bool alike = ComparesGroups(estimator_) ? equal == std::ssize(groups) : all.is_one();
  if (estimator_ == AdvantageEstimator::kRemax) alike = !by_baseline;
  ++steps_;
  if (!alike) {
    alike_ = 0;
    told_ = false;
    return "";
  }
  least_ = alike_ == 0 ? all.least : std::min(least_, all.least);
  most_ = alike_ == 0 ? all.most : std::max(most_, all.most);
  if (!IsTimeToTell(++alike_)) return "";
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
  return fmt::format(
      "nothing has been learnt from the rewards in {} {} steps: {} scored the same ({}){}; look at "
      "the answers (data.answer_key), at the reward, and whether responses differ "
      "(worker.rollout.temperature)",
      alike_ == steps_ ? "all" : "the last", alike_,
      ComparesGroups(estimator_) ? "all responses to each prompt" : "all responses", scores,
      ComparesGroups(estimator_) ? ", so that all advantages are 0" : "");
}

}  // namespace nxdkit::trainer
