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
  uint64_t group = 0;  // equal for the samples of one prompt, and for no others
  std::string prompt_text;
  std::string response_text;
  std::string ground_truth;
  bool cut = false;  // it ended at the limit, without an end token

  Scores scores;        // from the reward; "overall" is the one that counts
  double baseline = 0;  // remax: the score of the prompt's greedy sample
  // One for each token of the response:
  std::vector<float> engine_log_probs;  // as the engine sampled; empty: not known
  std::vector<float> old_log_probs;
  std::vector<float> ref_log_probs;
  std::vector<float> values;  // from the critic, before the step's updates
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
