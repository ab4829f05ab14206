// One sampled response on its way through a training step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/learner/rows.h"
#include "trainer/reward/reward.h"

namespace nxdkit::trainer {

struct Sample {
  Row row;
  uint64_t group = 0;  // the samples of one prompt have one number, which no other prompt has
  std::string prompt_text;
  std::string response_text;
  std::string ground_truth;
  bool cut = false;  // it ended at the limit, not with an end token

  Scores scores;        // of the reward; "overall" is what counts
  double baseline = 0;  // remax: the score of the prompt's greedy sample
  // Of the tokens of the response.
  std::vector<float> engine_log_probs;  // as the engine sampled; empty: not known
  std::vector<float> old_log_probs;
  std::vector<float> ref_log_probs;
  std::vector<float> values;  // of the critic before the step's updates
  std::vector<float> rewards;
  std::vector<float> advantages;
  std::vector<float> returns;

  size_t response_tokens() const { return row.response.size(); }
};

inline std::vector<Row> RowsOf(std::span<const Sample> samples) {
  std::vector<Row> rows;
  for (const Sample& sample : samples) rows.push_back(sample.row);
  return rows;
}

}  // namespace nxdkit::trainer
