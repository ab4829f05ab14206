// PRIVATE to trainer/loop. A watch over the rewards: whether there is anything to learn from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/algo/advantage.h"
#include "trainer/loop/sample.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

class RewardWatch {
 public:
  // `kl_in_rewards`: advantages are of scores less a penalty, which differs between responses.
  // `resumed`: there were steps before those of this process.
  explicit RewardWatch(AdvantageEstimator estimator, bool kl_in_rewards = false,
                       bool resumed = false)
      : estimator_(estimator), kl_in_rewards_(kl_in_rewards), resumed_(resumed) {}

  // Takes a step, and adds critic/score/equal_groups: of the prompts with two responses or more,
  // the share of those whose responses all scored the same. Returns a warning when there was
  // nothing to learn from in the last 5, 50, 500 ... steps; else "".
  std::string Take(std::span<const Sample> samples, Metrics& metrics);
  // When the run is over: a warning when it learnt nothing and has not said so; else "".
  std::string AtEnd() const;

 private:
  std::string Warning() const;

  AdvantageEstimator estimator_;
  bool kl_in_rewards_, resumed_;
  int64_t steps_ = 0;  // of this process
  int64_t alike_ = 0;  // the last ones, without anything to learn from
  bool told_ = false;
  double least_ = 0, most_ = 0;  // scores of those
};

}  // namespace nxdkit::trainer
