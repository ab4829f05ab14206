// PRIVATE to trainer/loop. Watches the rewards for signs that there is nothing to learn from them.
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
  // `kl_in_rewards`: advantages are made from scores minus a penalty, which differs between
  // responses. `resumed`: earlier processes have made steps.
  explicit RewardWatch(AdvantageEstimator estimator, bool kl_in_rewards = false,
                       bool resumed = false)
      : estimator_(estimator), kl_in_rewards_(kl_in_rewards), resumed_(resumed) {}

  // Takes a step, and adds critic/score/equal_groups: among prompts with two responses or more, the
  // share of those whose responses all scored the same. Returns a warning when there was nothing to
  // learn from in the last 5, 50, 500 ... steps; else "".
  std::string Take(std::span<const Sample> samples, Metrics& metrics);
  // At the end of the run: a warning if it learnt nothing and has not said so; else "".
  std::string AtEnd() const;

 private:
  std::string Warning() const;

  AdvantageEstimator estimator_;
  bool kl_in_rewards_, resumed_;
  int64_t steps_ = 0;  // in this process
  int64_t alike_ = 0;  // the last steps without anything to learn from
  bool told_ = false;
  double least_ = 0, most_ = 0;  // range of their scores
};

}  // namespace nxdkit::trainer
