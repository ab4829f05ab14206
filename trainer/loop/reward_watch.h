// PRIVATE to trainer/loop. Whether there is anything in the rewards to learn from.
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
  explicit RewardWatch(AdvantageEstimator estimator) : estimator_(estimator) {}

  // Of a step: adds critic/score/equal_groups, the share of prompts whose responses all scored the
  // same. Returns a warning when there was nothing to learn from in the last 5, 50, 500 ... steps;
  // else "".
  std::string Take(std::span<const Sample> samples, Metrics& metrics);
  // When the run is over: a warning when it learnt nothing and has not said so; else "".
  std::string AtEnd() const;

 private:
  std::string Warning() const;

  AdvantageEstimator estimator_;
  int64_t steps_ = 0;  // of this process
  int64_t alike_ = 0;  // the last ones, without anything to learn from
  bool told_ = false;
  double least_ = 0, most_ = 0;  // scores of those
};

}  // namespace nxdkit::trainer
